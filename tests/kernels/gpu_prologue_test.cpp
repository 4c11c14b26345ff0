// Products whose kernels compute elements of an operand when they read them.
#include <cmath>

#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/prologue.h"
#include "gpu_kernels.h"
#include "tests/support/normalising_loop.h"

namespace athanor::testing {
namespace {

/// A loop for a prologue, and what it computes in float64.
struct Computation {
  std::vector<TestOperand> inputs;
  LoopProgram program;
  std::vector<double> values;  // in the order of the operand's shape

  explicit Computation(const Shape& shape) { program.space = shape.to_ints(); }

  /// The register that holds the input's element. A stride of 0 repeats elements.
  int load(const TestOperand& input, const Ints& strides) {
    program.operands.push_back({program.buffers++, input.desc.dtype, 0, strides});
    inputs.push_back(input);
    LoopStep step;
    step.kind = LoopStep::Kind::load;
    step.operand = static_cast<int>(program.operands.size()) - 1;
    return add(step);
  }
  int compute(Prim prim, int a, int b = -1) {
    LoopStep step;
    step.prim = prim;
    step.a = a;
    step.b = b;
    return add(step);
  }
  void store(int source, DType dtype, const Ints& strides) {
    program.operands.push_back({program.buffers++, dtype, 0, strides});
    program.stores = {{source, static_cast<int>(program.operands.size()) - 1}};
    program.reduced.assign(program.space.size(), false);
  }

 private:
  int add(const LoopStep& step) {
    program.body.push_back(step);
    return static_cast<int>(program.body.size()) - 1;
  }
};

/// Runs all candidates, of which some must compute the operand themselves, and compares them with the product
/// of the values. `operand`: how the computed operand lies in memory.
void check(size_t which, const OperandDesc& operand, const TestOperand& other, const Computation& made,
           int groups = 1) {
  const DType dtype = operand.dtype;
  TestOperand computed = view(dtype, operand.shape, 9, operand.strides);
  computed.values = to_doubles(from_doubles(dtype, operand.shape, made.values));
  std::ranges::fill(computed.memory, std::byte{0xff});  // nothing is there before
  std::vector<TestOperand> inputs = {other, other};
  inputs[which] = computed;
  const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  KernelRequest request = request_of(find_op("batch_matmul"), {}, inputs, dtype, shape, {}, {});
  const std::vector<double> want = reference_of(request, inputs);
  for (const TestOperand& input : made.inputs) {
    inputs.push_back(input);
    request.inputs.push_back(input.desc);
  }
  request.prologue = Prologue{which, made.program};
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = traits_of(device);
    traits.compute_units = groups;
    EXPECT_TRUE(gpu_takes_prologue(request, traits)) << request.key();
    auto candidates = candidates_for(request, traits);
    ASSERT_FALSE(candidates.empty());
    EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
    EXPECT_TRUE(candidates.front().name.starts_with("a loop and ")) << candidates.front().name;
    std::vector<Run> runs{
        {candidates.front().name, run_on(device, candidates.front(), inputs, request.output())}};
    std::erase_if(candidates, [](const GpuCandidate& one) { return one.name.starts_with("a loop"); });
    EXPECT_FALSE(candidates.empty()) << request.key();
    for (const GpuCandidate& candidate : reduced(std::move(candidates)))
      runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
    expect_all_near(runs, want, tolerance_of(dtype), request.key());
  }
}

class GpuPrologue : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const DeviceInfo& info : gpu_devices()) {
      const GpuTraits& traits = traits_of(info.device);
      const auto takes = [](const MatrixUnit& unit) {
        return (unit.input == GetParam() || unit.input == DType::f32) && !unit.tf32;
      };
      if (std::ranges::none_of(traits.matrix_units, takes) && std::ranges::none_of(traits.lane_units, takes))
        GTEST_SKIP() << "no device here has tiles of " << to_string(GetParam());
    }
  }
};

/// (x - mean) * scale of rows, then gamma and beta of columns, as a layer norm does.
Computation normalised(DType from, DType to, const Shape& shape) {
  const int64_t b = shape[0], m = shape[1], k = shape[2];
  Computation made(shape);
  made.program = normalising_loop(shape, from, to);
  made.inputs = {view(from, shape, 1), view(DType::f32, {b, m, 1}, 2), view(DType::f32, {b, m, 1}, 3),
                 view(to, {k}, 4), view(to, {k}, 5)};
  const auto value = [&](size_t input, int64_t at) {
    return made.inputs[input].values[static_cast<size_t>(at)];
  };
  for (int64_t i = 0; i < shape.size(); ++i)
    made.values.push_back((value(0, i) - value(1, i / k)) * value(2, i / k) * value(3, i % k) +
                          value(4, i % k));
  return made;
}

TEST_P(GpuPrologue, NormalisedRows) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{
           {1, 128, 64, 128}, {2, 40, 64, 37}, {1, 131, 128, 24}, {3, 9, 64, 65}}) {
    const Shape shape{b, m, k};
    for (const int groups : {1, 64})  // in the second case K is split
      check(0, {GetParam(), shape, {}, contiguous_strides(shape)}, view(GetParam(), {b, k, n}, 6),
            normalised(GetParam(), GetParam(), shape), groups);
  }
}

// As in mixed precision: the rest of the model is in f32.
TEST_P(GpuPrologue, FromAnotherType) {
  const Shape shape{1, 72, 64};
  check(0, {GetParam(), shape, {}, contiguous_strides(shape)}, view(GetParam(), {1, 64, 40}, 6),
        normalised(DType::f32, GetParam(), shape));
}

TEST_P(GpuPrologue, TwoWholeOperands) {
  const Shape shape{1, 70, 64};
  const Ints dense = contiguous_strides(shape);
  Computation made(shape);
  const TestOperand x = view(GetParam(), shape, 1), y = view(GetParam(), shape, 2);
  const int a = made.load(x, dense), power = made.compute(Prim::exp, a);
  made.store(made.compute(Prim::mul, power, made.load(y, dense)), GetParam(), dense);
  for (size_t i = 0; i < x.values.size(); ++i) made.values.push_back(std::exp(x.values[i]) * y.values[i]);
  check(0, {GetParam(), shape, {}, dense}, view(GetParam(), {1, 64, 48}, 6), made);
}

// A linear layer's weights [N, K], whose product reads them transposed, with a scale for each of their rows.
TEST_P(GpuPrologue, WeightsOfScaledRows) {
  const int64_t k = 64, n = 56;
  const Shape shape{1, k, n};
  const Ints strides{k * n, 1, k};
  Computation made(shape);
  const TestOperand w = view(GetParam(), shape, 1, strides), scale = view(DType::f32, {n}, 2);
  made.store(made.compute(Prim::mul, made.load(w, strides), made.load(scale, {0, 0, 1})), GetParam(),
             strides);
  for (int64_t i = 0; i < shape.size(); ++i)
    made.values.push_back(w.values[static_cast<size_t>(i)] * scale.values[static_cast<size_t>(i % n)]);
  check(1, {GetParam(), shape, {}, strides}, view(GetParam(), {1, 40, k}, 6), made);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuPrologue, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

// What a kernel cannot compute when it reads: steps that are no whole tile, and operands that lie otherwise.
TEST(GpuPrologues, OthersAreNotTaken) {
  ATHANOR_NEEDS_GPU();
  GpuTraits traits;
  add_architecture(traits, GpuTarget::cuda, "sm_86");
  set_driver_facts(traits, GpuTarget::cuda, "sm_86");
  const auto takes = [&](const Shape& shape, bool turned) {
    Computation made = normalised(DType::f32, DType::f32, shape);
    if (turned) made.program.operands[0].strides = {shape[1] * shape[2], 1, shape[1]};
    KernelRequest request =
        request_of(find_op("batch_matmul"), {},
                   {view(DType::f32, shape, 1), view(DType::f32, {shape[0], shape[2], 64}, 2)}, DType::f32,
                   {shape[0], shape[1], 64}, {}, {});
    for (const TestOperand& input : made.inputs) request.inputs.push_back(input.desc);
    request.prologue = Prologue{0, made.program};
    return gpu_takes_prologue(request, traits);
  };
  EXPECT_TRUE(takes({1, 64, 64}, false));
  EXPECT_FALSE(takes({1, 64, 61}, false));
  EXPECT_FALSE(takes({1, 64, 64}, true));
}

}  // namespace
}  // namespace athanor::testing
