// Which loops run in the kernel of the contraction whose result they read, and that results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "athanor/backends/gpu/backend.h"
#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

std::vector<Tensor> kept;  // inputs that are used again, so that no result takes over their memory

Tensor numbers(const Shape& shape, double scale, Device device, DType dtype) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  uint32_t state = 7 + static_cast<uint32_t>(shape.size());
  for (float& v : values)
    v = static_cast<float>(
        scale * (static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) - 0.4));
  Tensor x = cast(Tensor::from(values, shape).to(device), dtype);
  x.eval();
  kept.push_back(x);
  return x;
}

using Tensors = std::vector<Tensor>;
using TypedComputation = std::function<Tensors(Device, DType)>;

/// Compares the values on the device, computed twice, with those on the CPU without epilogues.
void expect_same_typed_values(Device device, DType dtype, const TypedComputation& computed) {
  const auto floats = [](const Tensor& x) { return cast(x, DType::f32).to(Device{}).to_vector<float>(); };
  const Tensors here = computed(device, dtype), again = computed(device, dtype);
  eval(here);
  eval(again);
  const ScopedDisable off("epilogue");
  const Tensors there = computed({}, dtype);
  eval(there);
  const double allowed = dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 4e-3 : 3e-2;
  for (size_t i = 0; i < here.size(); ++i) {
    const auto a = floats(here[i]), b = floats(there[i]);
    ASSERT_EQ(a, floats(again[i])) << "not the same bits again";
    ASSERT_EQ(a.size(), b.size());
    double largest = 1;
    for (const float v : b) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], allowed * largest) << i << " " << k;
  }
}

class Absorbed : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    gpu_ = testing::gpu_devices().front().device;
    compile_options().deterministic = true;  // the best guess is the one that computes all in one kernel
    const GpuTraits& traits = testing::traits_of(gpu_);
    for (const auto& units : {traits.matrix_units, traits.lane_units})
      tiles_ |= std::ranges::count(units, GetParam(), &MatrixUnit::input) > 0;
    // Without tiles a loop after the kernel computes the rest, as in f32, and PoCL is slow to compile it.
    if (!tiles_ && GetParam() != DType::f32)
      GTEST_SKIP() << "this device has no tiles of " << to_string(GetParam());
  }
  void TearDown() override {
    kept.clear();
    compile_options().deterministic = before_;
  }

  /// If the device has tiles, the plan has this many steps. The values must be right on any device.
  void check(const TypedComputation& computed, size_t steps) {
    if (tiles_) {
      const auto plan = plan_for(computed(gpu_, GetParam()));
      EXPECT_EQ(plan->steps.size(), steps) << explain(*plan);
    }
    expect_same_typed_values(gpu_, GetParam(), computed);
  }

  Device gpu_;
  bool tiles_ = false, before_ = compile_options().deterministic;
};

Tensor f32(const Tensor& x) { return cast(x, DType::f32); }

TEST_P(Absorbed, SeveralResults) {
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{40, 24, 56}, {65, 33, 129}, {131, 48, 77}})
    check(
        [&](Device device, DType dtype) -> Tensors {
          const Tensor h = matmul(numbers({m, k}, 1, device, dtype), numbers({k, n}, 0.5, device, dtype));
          return {h, gelu(h), f32(h) * 3 + numbers({m, n}, 1, device, DType::f32)};
        },
        1);
}

TEST_P(Absorbed, OnlyAnotherType) {
  check(
      [](Device device, DType dtype) -> Tensors {
        const Tensor h =
            matmul(numbers({2, 33, 24}, 1, device, dtype), numbers({24, 40}, 0.5, device, dtype));
        return {f32(h) + numbers({2, 33, 40}, 1, device, DType::f32)};
      },
      1);
}

TEST_P(Absorbed, SumsOfColumns) {
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{40, 24, 56}, {165, 33, 129}, {300, 48, 9}})
    check(
        [&](Device device, DType dtype) -> Tensors {
          const Tensor h = matmul(numbers({m, k}, 1, device, dtype), numbers({k, n}, 0.5, device, dtype));
          return {h, sum(f32(h), {0}), sum(f32(h) * f32(h), {0}) / 7.0};
        },
        1);
}

TEST_P(Absorbed, SumsOfRows) {
  for (const auto& [b, m, n] : std::vector<std::array<int64_t, 3>>{{1, 40, 56}, {3, 65, 129}, {2, 30, 300}})
    check(
        [&](Device device, DType dtype) -> Tensors {
          const Tensor h =
              matmul(numbers({b, m, 40}, 1, device, dtype), numbers({b, 40, n}, 0.5, device, dtype));
          return {h, mean(f32(h), {2}) + 1, max(f32(h), {2})};
        },
        1);
}

TEST_P(Absorbed, SumsOfAll) {
  check(
      [](Device device, DType dtype) -> Tensors {
        const Tensor h =
            matmul(numbers({3, 70, 40}, 1, device, dtype), numbers({3, 40, 50}, 0.5, device, dtype));
        return {sqrt(sum(f32(h) * f32(h)))};
      },
      1);
}

// Few tiles along a long K: K is divided into parts.
TEST_P(Absorbed, PartsOfK) {
  check(
      [](Device device, DType dtype) -> Tensors {
        const Tensor h =
            matmul(numbers({24, 2000}, 0.1, device, dtype), numbers({2000, 40}, 0.5, device, dtype));
        return {h, sum(f32(h), {0}), gelu(h)};
      },
      1);
}

TEST_P(Absorbed, SumsOfChannels) {
  for (const int64_t groups : {1, 2})
    for (const int64_t size : {6, 13})
      check(
          [&](Device device, DType dtype) -> Tensors {
            const Tensor x = numbers({3, 16, size, size - 1}, 1, device, dtype),
                         w = numbers({40, 16 / groups, 5, 5}, 0.5, device, dtype);
            const Tensor y = conv2d(x, w, {}, {.padding = 2, .groups = groups});  // (Winograd's is 3 x 3)
            return {y, mean(f32(y), {0, 2, 3})};
          },
          1);
}

// Those of f16 and bf16 take one pass.
TEST_P(Absorbed, VariancesOfChannels) {
  for (const int64_t size : {6, 13})
    check(
        [&](Device device, DType dtype) -> Tensors {
          const Tensor x = numbers({3, 16, size, size - 1}, 1, device, dtype),
                       w = numbers({40, 16, 1, 1}, 0.5, device, dtype);
          const Tensor y = conv2d(x, w, {});
          const Moments m = moments(f32(y), {0, 2, 3});
          return {y, m.mean, rsqrt(m.var + 1e-5)};
        },
        GetParam() == DType::f32 ? 2 : 1);
}

// An average like batch norm's running statistics.
TEST_P(Absorbed, AveragesThatItUpdatesKeepTheirPlace) {
  const auto train = [&](Device device, bool looks) {
    const Tensor x = numbers({3, 16, 6, 5}, 1, device, GetParam()),
                 w = numbers({40, 16, 3, 3}, 0.5, device, GetParam());
    Tensor running = full({40}, 0.5, DType::f32, device).eval();
    for (int step = 0; step < 3; ++step) {
      const void* const before = running.node()->value->address();
      const Tensor y = conv2d(x, w, {}, {.padding = 1});
      running = running + 0.25 * (mean(f32(y), {0, 2, 3}) - running);
      eval({y, running});
      if (!looks) continue;
      EXPECT_EQ(last_plan()->steps.size(), 1U) << explain(*last_plan());
      EXPECT_EQ(running.node()->value->address(), before) << explain(*last_plan());
    }
    return running.to_vector<float>();
  };
  const auto here = train(gpu_, tiles_), there = train({}, false);
  for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(here[i], there[i], 0.05) << i;
}

TEST_P(Absorbed, GradientsOfImagesWithTheirMask) {
  for (const int64_t stride : {1, 2})
    check(
        [&](Device device, DType dtype) -> Tensors {
          const Tensor y = numbers({2, 24, 9, 10}, 1, device, dtype),
                       w = numbers({16, 24, 3, 3}, 0.5, device, dtype);
          const Tensor dy = numbers({2, 16, 8 / stride + 1, 9 / stride + 1}, 1, device, dtype);
          const Tensor dx = conv2d_input_grad(dy, w, y.shape(), {.stride = stride, .padding = 1});
          const Tensor masked = where(y > 0.0, dx, 0.0);
          return {masked, sum(f32(masked), {0, 2, 3}), sum(f32(masked * y), {0, 2, 3})};
        },
        1);
}

// Channels that are padded, groups, strides; 1 x 1 kernels; and, with many pixels, parts of K.
TEST_P(Absorbed, GradientsOfWeights) {
  struct Sizes {
    Shape x, w;
    Conv2dOptions options;
  };
  for (const Sizes& s : std::vector<Sizes>{{{2, 24, 9, 10}, {16, 24, 3, 3}, {.padding = 1}},
                                           {{3, 3, 13, 12}, {20, 3, 5, 3}, {.stride = 2, .padding = 2}},
                                           {{2, 16, 8, 8}, {24, 8, 3, 3}, {.padding = 1, .groups = 2}},
                                           {{2, 32, 8, 6}, {40, 32, 1, 1}, {}},
                                           {{4, 11, 32, 32}, {9, 11, 3, 3}, {.padding = 1}}})
    for (const bool rows : {false, true})
      check(
          [&](Device device, DType dtype) -> Tensors {
            const Tensor x = numbers(s.x, 0.2, device, dtype), w = numbers(s.w, 1, device, dtype);
            const Shape y = conv2d(x, w, {}, s.options).shape();
            const Tensor dw = conv2d_weight_grad(x, numbers(y, 0.1, device, dtype), s.w, s.options);
            if (rows) return {dw, max(f32(dw), {1, 2, 3})};
            return {dw, f32(dw) + f32(w) * 0.5, sum(f32(dw) * f32(dw))};
          },
          1);
}

TEST_P(Absorbed, LeaveWhatNeedsTheSumsFirst) {
  expect_same_typed_values(gpu_, GetParam(), [](Device device, DType dtype) -> Tensors {
    const Tensor h = f32(matmul(numbers({70, 40}, 1, device, dtype), numbers({40, 50}, 0.5, device, dtype)));
    const Tensor centred = h - mean(h, {1}, true);
    return {centred / sqrt(mean(centred * centred, {1}, true) + 1e-5), sum(h, {0})};
  });
}

// OpenCL's lanes exchange partial results through local memory.
TEST(AbsorbedByLanes, SumsOfRowsAndColumns) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  if (gpu.facts().target != GpuTarget::opencl) GTEST_SKIP() << "lanes exchange registers here";
  const GpuTraits before = gpu.traits();
  const bool deterministic = compile_options().deterministic;
  compile_options().deterministic = true;  // the best guess is the one that computes all in one kernel
  gpu.set_traits(testing::with_lane_tiles(before));
  const TypedComputation computed = [](Device on, DType dtype) -> Tensors {
    const Tensor h = matmul(numbers({40, 24}, 1, on, dtype), numbers({24, 56}, 0.5, on, dtype));
    const Tensor g = matmul(numbers({33, 24}, 1, on, dtype), numbers({24, 40}, 0.5, on, dtype));
    return {h, sum(h * h, {0}), max(g, {1})};
  };
  const std::string steps = explain(*plan_for(computed(device, DType::f32)));
  EXPECT_NE(steps.find("fma 16x32"), std::string::npos) << steps;
  EXPECT_EQ(plan_for(computed(device, DType::f32))->steps.size(), 2U) << steps;
  expect_same_typed_values(device, DType::f32, computed);
  gpu.set_traits(before);
  compile_options().deterministic = deterministic;
}

// Scaling, bias and activation of products of bytes: their sums, of i32 or f32, are never in memory.
class AbsorbedBytes : public ::testing::TestWithParam<DType> {};

TEST_P(AbsorbedBytes, ScaleTheirSums) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  const GpuTraits& traits = testing::traits_of(device);
  bool tiles = false;
  for (const auto& units : {traits.matrix_units, traits.lane_units})
    tiles |= std::ranges::count(units, GetParam(), &MatrixUnit::input) > 0;
  if (std::ranges::any_of(traits.matrix_units, [](const MatrixUnit& unit) {
        return unit.input == GetParam() && testing::virtual_gpu_lacks(unit);
      }))
    GTEST_SKIP() << "the virtual GPU does not execute it";
  const bool deterministic = compile_options().deterministic;
  compile_options().deterministic = true;  // the best guess is the one that computes all in one kernel
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{96, 128, 64}, {65, 256, 49}, {40, 4096, 24}}) {
    const TypedComputation computed = [&](Device on, DType dtype) -> Tensors {
      const Tensor a = cast(numbers({m, k}, 100, on, DType::f32), dtype),
                   b = cast(numbers({k, n}, 60, on, DType::f32), dtype);
      const Tensor h = f32(wide_matmul(a.eval(), b.eval())) * 1e-4;
      return {gelu(h + numbers({n}, 1, on, DType::f32)), max(h, {1})};
    };
    if (tiles) {
      const auto plan = plan_for(computed(device, GetParam()));
      EXPECT_EQ(plan->steps.size(), 1U) << explain(*plan);
    }
    expect_same_typed_values(device, GetParam(), computed);
  }
  kept.clear();
  compile_options().deterministic = deterministic;
}

INSTANTIATE_TEST_SUITE_P(Types, AbsorbedBytes, ::testing::Values(DType::i8, DType::f8e4m3, DType::f8e5m2),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });
INSTANTIATE_TEST_SUITE_P(Types, Absorbed, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace athanor
