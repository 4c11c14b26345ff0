// Kernels of pad and concat: results in either order of memory, parts that begin anywhere.
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

/// Every candidate of every device, and of small devices of the other kind, gives what the CPU gives, which
/// its own tests compare with loops. `last`: the result has its channels last in memory.
void check(const std::string& op, const Attrs& attrs, std::vector<TestOperand> inputs, const Shape& shape,
           bool last) {
  const DType dtype = inputs[0].desc.dtype;
  const std::vector<double> want = run_all(find_op(op), attrs, inputs, dtype, shape).front().values;
  KernelRequest request = request_of(find_op(op), attrs, inputs, dtype, shape, {}, {});
  if (last) request.outputs[0].strides = channels_last_strides(shape);
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits small = device.facts().traits;
    if (!is_reduced()) small.grain = other_grain(small.grain);
    small.compute_units = 4;  // so that vectors leave it enough items
    std::vector<Run> runs;
    for (const GpuTraits& traits : {device.facts().traits, small})
      for (const GpuCandidate& one : candidates_for(request, traits))
        runs.push_back({one.name, run_on(device, one, inputs, request.output())});
    expect_all_near(runs, want, 0, request.key());
  }
}

Ints strides_of(const Shape& shape, bool last) {
  return last ? channels_last_strides(shape) : contiguous_strides(shape);
}

TEST(GpuMovement, PadsInEitherOrder) {
  ATHANOR_NEEDS_GPU();
  const Shape shape{2, 9, 7, 11};
  const Attrs attrs{{"low", Ints{0, 1, 2, -1}}, {"high", Ints{0, 2, 0, 1}}, {"value", 0.5}};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool last : {false, true})
      check("pad", attrs, {view(dtype, shape, 1, strides_of(shape, last))}, {2, 12, 9, 11}, last);
}

TEST(GpuMovement, ConcatenatesInEitherOrder) {
  ATHANOR_NEEDS_GPU();
  for (const int axis : {1, 2, 3}) {
    const Shape a{2, 24, 40, 24}, b = a.with(axis, 9), all = a.with(axis, a[axis] + 9);
    for (const DType dtype : axis == 1 ? std::vector{DType::f32, DType::bf16} : std::vector{DType::bf16})
      for (const bool last : {false, true}) {
        // The first has the result's order, so that it is moved by vectors. The third begins anywhere.
        const TestOperand whole = view(dtype, a, 1, strides_of(a, last)), other = view(dtype, b, 2);
        const Attrs attrs{{"axis", int64_t{axis}}};
        check("concat", attrs, {whole, other}, all, last);
        TestOperand part = view(dtype, {2, 24, 40, 24}, 1, {27 * 960, 960, 24, 1});
        part.desc.alignment = static_cast<int64_t>(size_of(dtype));
        check("concat", attrs, {other, part}, all, last);
      }
  }
}

// A driver may fault if a vector is read from a place that is not a multiple of its size.
TEST(GpuMovement, OnlyPartsThatBeginWithAVectorAreMovedByVectors) {
  const auto launches = [](int64_t alignment) {
    const Shape shape{1024, 1024};
    OperandDesc x{DType::bf16, shape, {}, contiguous_strides(shape)};
    x.alignment = alignment;
    const OperandDesc y{DType::bf16, {2048, 1024}, {}, {1024, 1}};
    const KernelRequest request{&find_op("concat"), {{"axis", int64_t{0}}}, {x, x}, {y}, {}};
    return candidates_for(request, {.registers = true}).front().launches;
  };
  const std::vector<GpuLaunch> whole = launches(OperandDesc::whole_vectors), part = launches(2);
  const char* reads_vectors = ", in0, m0";  // READ_ALIGNED(4, in0, m0 + ...)
  EXPECT_NE(whole[0].source.find(reads_vectors), std::string::npos);
  EXPECT_EQ(whole[0].source, whole[1].source) << "compiled once";
  EXPECT_EQ(part[0].source.find(reads_vectors), std::string::npos);
}

}  // namespace
}  // namespace athanor::testing
