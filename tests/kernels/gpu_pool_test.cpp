#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

struct PoolCase {
  Shape x;
  Ints kernel, stride, padding;
  bool count_include_pad = true;

  Shape y() const {
    const auto windows = [&](int axis) {
      const auto i = static_cast<size_t>(axis);
      return (x[axis + 2] + 2 * padding[i] - kernel[i]) / stride[i] + 1;
    };
    return {x[0], x[1], windows(0), windows(1)};
  }
  Attrs attrs(bool max) const {
    Attrs result = {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
    if (!max) result.set("count_include_pad", count_include_pad);
    return result;
  }
};

const std::vector<PoolCase> cases = {
    {{2, 3, 8, 6}, {2, 2}, {2, 2}, {0, 0}},          {{1, 2, 7, 9}, {3, 2}, {2, 1}, {1, 0}},
    {{2, 1, 5, 7}, {3, 3}, {1, 1}, {1, 1}, false},   {{1, 17, 3, 3}, {3, 3}, {3, 3}, {0, 0}},
    {{0, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}},          {{2, 3, 17, 16}, {2, 2}, {3, 3}, {0, 0}},
    {{2, 3, 16, 16}, {3, 3}, {2, 2}, {1, 1}, false}, {{1, 2, 9, 11}, {3, 3}, {2, 2}, {1, 1}, false},
    {{2, 1, 11, 12}, {5, 2}, {2, 3}, {2, 0}},        {{1, 3, 6, 8}, {1, 3}, {2, 1}, {0, 1}}};

/// `last`: all images have their channels last in memory, whatever the strides.
void check(const PoolCase& c, DType dtype, Ints x_strides = {}, Ints y_strides = {}, bool last = false) {
  const double tolerance = dtype == DType::f32 ? 2e-6 : tolerance_of(dtype);
  const Shape y = c.y();
  if (last) x_strides = channels_last_strides(c.x), y_strides = channels_last_strides(y);
  const Ints to_x = last ? x_strides : Ints(), to_y = last ? y_strides : Ints();
  const TestOperand x = view(dtype, c.x, 1, x_strides), dy = view(dtype, y, 2, y_strides);
  check_candidates("max_pool2d", c.attrs(true), {x}, y, tolerance, {}, {}, to_y);
  check_candidates("avg_pool2d", c.attrs(false), {x}, y, tolerance, {}, {}, to_y);
  check_candidates("max_pool2d_grad", c.attrs(true), {x, dy}, c.x, tolerance, {}, {}, to_x);
  Attrs average = c.attrs(false);
  average.set("input_shape", c.x.to_ints());
  check_candidates("avg_pool2d_grad", average, {dy}, c.x, tolerance, {}, {}, to_x);
}

TEST(GpuPool, OddShapes) {
  ATHANOR_NEEDS_GPU();
  for (const PoolCase& c : cases) check(c, DType::f32);
}

TEST(GpuPool, OtherTypes) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    for (const PoolCase& c : {cases[0], cases[1]}) check(c, dtype);
}

TEST(GpuPool, Strides) {
  ATHANOR_NEEDS_GPU();
  const PoolCase& c = cases[0];
  check(c, DType::f32, {2, 4 * 48, -4, 4 * 8}, {0, 12, 1, 4});
}

TEST(GpuPool, ChannelsLast) {
  ATHANOR_NEEDS_GPU();
  for (const PoolCase& c : {cases[0], cases[2], cases[6], cases[8]}) check(c, DType::f16, {}, {}, true);
}

// Vectors of channels: windows that overlap, that leave gaps, that reach past the image.
TEST(GpuPool, VectorsOfChannels) {
  ATHANOR_NEEDS_GPU();
  for (PoolCase c : {cases[0], cases[1], cases[2], cases[5], cases[6], cases[7], cases[8]}) {
    c.x = {c.x[0], 24, c.x[2], c.x[3]};
    for (const DType dtype : {DType::f32, DType::bf16}) check(c, dtype, {}, {}, true);
  }
  PoolCase tied = cases[7];
  tied.x = {1, 16, 9, 11};
  const OperandDesc x{DType::bf16, tied.x, {}, channels_last_strides(tied.x)};
  for (const DeviceInfo& info : gpu_devices()) {
    const GpuTraits& traits = traits_of(info.device);
    const OperandDesc dy{DType::bf16, tied.y(), {}, channels_last_strides(tied.y())};
    const auto first =
        candidates_for({&find_op("max_pool2d_grad"), tied.attrs(true), {x, dy}, {x}, {}}, traits).front();
    EXPECT_EQ(first.name.starts_with("pool_grad_channels"), traits.registers) << first.name;
  }
}

TEST(GpuPool, TheFirstOfEqualsTakesTheGradient) {
  ATHANOR_NEEDS_GPU();
  for (const PoolCase& c : cases) {
    const std::vector<double> same(static_cast<size_t>(c.x.size()), 0.5);
    check_candidates("max_pool2d_grad", c.attrs(true),
                     {make_value(DType::f32, c.x, same), view(DType::f32, c.y(), 2)}, c.x, 2e-6);
  }
}

// If windows overlap, a GPU's item searches each window once for several elements.
TEST(GpuPool, ElementsShareWindows) {
  const auto first_of = [](const PoolCase& c, const GpuTraits& traits) {
    const auto desc = [](const Shape& shape) {
      return OperandDesc{DType::bf16, shape, {}, contiguous_strides(shape)};
    };
    const KernelRequest request{
        &find_op("max_pool2d_grad"), c.attrs(true), {desc(c.x), desc(c.y())}, {desc(c.x)}, {}};
    return candidates_for(request, traits).front();
  };
  const GpuCandidate resnet = first_of({{8, 64, 112, 112}, {3, 3}, {2, 2}, {1, 1}}, {.registers = true});
  EXPECT_EQ(resnet.name, "pool_grad_blocks 2x4 by 256");
  EXPECT_EQ(resnet.launches[0].groups[0], 8 * 64 * 56 * 28 / 256);
  EXPECT_TRUE(first_of(cases[0], {}).name.starts_with("pool_windows"));
  EXPECT_TRUE(first_of(cases[6], {.grain = &coarse_grain}).name.starts_with("pool_grad "));
}

TEST(GpuPool, ANaNStays) {
  ATHANOR_NEEDS_GPU();
  std::vector<double> values = random_values(16, 1);
  values[5] = std::nan("");
  TestOperand x = make_value(DType::f32, {1, 1, 4, 4}, values);
  const PoolCase c{{1, 1, 4, 4}, {2, 2}, {2, 2}, {0, 0}};
  std::vector<TestOperand> inputs = {x};
  KernelRequest request{
      &find_op("max_pool2d"), c.attrs(true), {x.desc}, {random_value(DType::f32, c.y(), 1).desc}, {}};
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const GpuCandidate& candidate : candidates_for(request, device.facts().traits)) {
      const auto result = run_on(device, candidate, inputs, request.output());
      EXPECT_TRUE(std::isnan(result[0])) << candidate.name;
      EXPECT_FALSE(std::isnan(result[1])) << candidate.name;
    }
  }
}

}  // namespace
}  // namespace athanor::testing
