// Which loops become the prologue of the contraction that reads their result, and that results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "athanor/backends/gpu/backend.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/host_result.h"
#include "athanor/kernels/trial.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

std::vector<Tensor> operands_kept;  // inputs that are used again, so that no result takes over their memory

Tensor operand(const Shape& shape, Device device, DType dtype) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  uint32_t state = 7 + static_cast<uint32_t>(shape.size());
  for (float& v : values)
    v = static_cast<float>(static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) -
                           0.4);
  Tensor x = cast(Tensor::from(values, shape).to(device), dtype);
  x.eval();
  operands_kept.push_back(x);
  return x;
}

using Tensors = std::vector<Tensor>;
using PrologueComputation = std::function<Tensor(const Tensors&)>;

class Prologues : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    gpu_ = testing::gpu_devices().front().device;
    if (!has_tiles(DType::f32)) GTEST_SKIP() << "this device has no tiles of f32";
  }
  bool has_tiles(DType dtype) const {
    bool some = false;
    const GpuTraits& traits = testing::traits_of(gpu_);
    for (const auto& units : {traits.matrix_units, traits.lane_units})
      for (const MatrixUnit& unit : units) some |= unit.input == dtype && !unit.tf32;
    return some;
  }
  void TearDown() override { operands_kept.clear(); }

  /// The result, not yet evaluated, of operands of these shapes.
  static Tensor of(Device device, const std::vector<Shape>& shapes, const PrologueComputation& computed,
                   DType dtype = DType::f32) {
    Tensors all;
    for (const Shape& shape : shapes) all.push_back(operand(shape, device, dtype));
    return computed(all);
  }

  /// The requests of the plan that have a prologue, after checking that every candidate of each computes what
  /// the host does (or the first candidate), and that the plan's values are the CPU's.
  std::vector<KernelRequest> check(const std::vector<Shape>& shapes, const PrologueComputation& computed,
                                   DType dtype = DType::f32) {
    std::vector<KernelRequest> found;
    for (const PlanStep& step : plan_for({of(gpu_, shapes, computed, dtype)})->steps)
      if (step.request && step.request->prologue) found.push_back(*step.request);
    for (const KernelRequest& request : found) {
      const auto candidates = backend_of(gpu_).candidates(gpu_.index, request);
      Trial trial(gpu_, request);
      TrialResults want = host_result(request);
      // Not every host convolves floats of 16 bits. The plan's values are compared with the CPU's too.
      if (want.empty()) want = trial.result(candidates.front());
      for (const Candidate& one : candidates)
        EXPECT_TRUE(agree(trial.result(one), want, request)) << one.name << " of " << request.key();
    }
    const auto floats = [](const Tensor& x) { return cast(x, DType::f32).to(Device{}).to_vector<float>(); };
    const auto here = floats(of(gpu_, shapes, computed, dtype)),
               there = floats(of({}, shapes, computed, dtype));
    EXPECT_EQ(here.size(), there.size());
    const float allowed = dtype == DType::f32 ? 1e-4F : dtype == DType::f16 ? 4e-3F : 3e-2F;
    float largest = 1;
    for (const float v : there) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], allowed * largest) << i;
    return found;
  }

  Device gpu_;
  ScopedDisable no_chains_{"chain"};  // whose last loop would have been the prologue
};

const std::vector<Shape> linear = {{70, 64}, {64}, {64}, {64, 64}};

TEST_F(Prologues, ANormBeforeALinearLayer) {
  const PrologueComputation computed = [](const Tensors& t) {
    return matmul(layer_norm(t[0], 1, t[1], t[2]), t[3]);
  };
  const std::vector<Shape> shapes = {{3, 20, 64}, {64}, {64}, {64, 40}};
  EXPECT_EQ(check(shapes, computed).size(), 1U);
  const size_t steps = plan_for({of(gpu_, shapes, computed)})->steps.size();
  const ScopedDisable off("prologue");
  EXPECT_EQ(plan_for({of(gpu_, shapes, computed)})->steps.size(), steps + 1);
}

TEST_F(Prologues, BesideAnEpilogue) {
  const auto found = check(
      linear, [](const Tensors& t) { return gelu(matmul(layer_norm(t[0], 1, t[1], t[2]), t[3]) + t[2]); });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found.front().has_epilogue());
}

// Groups read rows of x for the prologue after others have stored results: so these may not take over its
// memory, although the epilogue reads x element by element.
TEST_F(Prologues, WhatItReadsIsNotOverwritten) {
  const PrologueComputation computed = [](const Tensors& t) {
    const Tensor x = matmul(t[0], t[3]);
    return exp(matmul(layer_norm(x, 1, t[1], t[2]), t[3]) + x) * sum(t[0], {0});
  };
  EXPECT_EQ(check(linear, computed).size(), 1U);
  const auto plan = plan_for({of(gpu_, linear, computed)});
  for (const PlanStep& step : plan->steps) {
    if (!step.request || !step.request->prologue) continue;
    const auto range = [&](int v) {
      const PlanValue& value = plan->values[static_cast<size_t>(v)];
      return std::pair(value.offset, value.offset + static_cast<int64_t>(value.type.bytes()));
    };
    const auto is_temporary = [&](int v) {
      return plan->values[static_cast<size_t>(v)].kind == PlanValue::Kind::temporary;
    };
    for (const int written : step.writes)
      for (const int read : step.reads) {
        if (!is_temporary(written) || !is_temporary(read)) continue;
        const auto a = range(written), b = range(read);
        EXPECT_TRUE(a.second <= b.first || b.second <= a.first) << explain(*plan);
      }
  }
}

TEST_F(Prologues, AComputedWeight) {
  const auto found =
      check({{70, 64}, {40, 64}}, [](const Tensors& t) { return matmul(t[0], transpose(exp(t[1]))); });
  EXPECT_EQ(found.size(), 1U);
}

Tensor channelwise(const Tensor& x, const Tensor& scale) {
  return relu(x * reshape(scale, {1, scale.size(0), 1, 1}) + 0.1);
}

// As in a network that normalises before each convolution: in the copy with channels last or, for 1 x 1
// kernels, where elements are read.
TEST_F(Prologues, ImagesOfConvolutions) {
  struct Sizes {
    Shape w;
    Conv2dOptions options;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (!has_tiles(dtype)) continue;
    for (const Sizes& s : std::vector<Sizes>{{{24, 16, 3, 3}, {.padding = 1}},
                                             {{24, 16, 3, 2}, {.stride = 2, .padding = 1}},
                                             {{24, 8, 3, 3}, {.groups = 2}},
                                             {{24, 16, 1, 1}, {}}}) {
      const auto found = check(
          {{2, 16, 7, 6}, {16}, s.w},
          [&](const Tensors& t) { return conv2d(channelwise(t[0], t[1]), t[2], {}, s.options); }, dtype);
      EXPECT_EQ(found.size(), 1U) << to_string(dtype);
    }
  }
}

TEST_F(Prologues, ImagesWithChannelsLast) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (!has_tiles(dtype)) continue;
    for (const int64_t kernel : {3, 1}) {
      const auto found = check(
          {{2, 3, 12, 8}, {64, 3, 3, 3}, {64}, {40, 64, kernel, kernel}},
          [&](const Tensors& t) {
            const Tensor h = max_pool2d(conv2d(t[0], t[1], {}, {.padding = 1}), 2);
            return conv2d(channelwise(h, t[2]), t[3], {}, {.padding = kernel / 2});
          },
          dtype);
      ASSERT_EQ(found.size(), 1U) << to_string(dtype);
      const bool by_units =
          std::ranges::count(testing::traits_of(gpu_).matrix_units, dtype, &MatrixUnit::input) > 0;
      EXPECT_EQ(found.front().inputs[0].channels_last(), by_units);
    }
  }
}

TEST_F(Prologues, GradientsOfConvolutions) {
  for (const Shape& w : std::vector<Shape>{{24, 16, 3, 3}, {24, 16, 1, 1}}) {
    const Conv2dOptions options{.padding = w[2] / 2};
    EXPECT_EQ(
        check({{2, 16, 8, 8}, {16}, {2, 24, 8, 8}},
              [&](const Tensors& t) { return conv2d_weight_grad(channelwise(t[0], t[1]), t[2], w, options); })
            .size(),
        1U);
    EXPECT_EQ(
        check({{2, 16, 8, 8}, {24}, {2, 24, 8, 8}},
              [&](const Tensors& t) { return conv2d_weight_grad(t[0], channelwise(t[2], t[1]), w, options); })
            .size(),
        1U);
    EXPECT_EQ(check({{2, 24, 8, 8}, {24}, w},
                    [&](const Tensors& t) {
                      return conv2d_input_grad(channelwise(t[0], t[1]), t[2], {2, 16, 8, 8}, options);
                    })
                  .size(),
              1U);
  }
}

TEST_F(Prologues, WeightsOfConvolutions) {
  for (const Shape& w : std::vector<Shape>{{24, 16, 3, 3}, {24, 16, 1, 1}})
    EXPECT_EQ(check({{2, 16, 8, 8}, w, w},
                    [&](const Tensors& t) { return conv2d(t[0], tanh(t[1]) * t[2], {}, {.padding = 1}); })
                  .size(),
              1U);
  // With a number for each channel.
  EXPECT_EQ(check({{2, 16, 8, 8}, {24, 16, 3, 3}, {1, 16, 1, 1}},
                  [&](const Tensors& t) { return conv2d(t[0], tanh(t[1]) * t[2], {}, {.padding = 1}); })
                .size(),
            1U);
}

// The operand would hold what was there before.
TEST_F(Prologues, NotWhereNaNsAreLookedFor) {
  const auto before = compile_options().check_nan;
  compile_options().check_nan = true;
  EXPECT_TRUE(
      check(linear, [](const Tensors& t) { return matmul(layer_norm(t[0], 1, t[1], t[2]), t[3]); }).empty());
  compile_options().check_nan = before;
}

TEST_F(Prologues, OnlyForOneReader) {
  EXPECT_TRUE(check(linear, [](const Tensors& t) {
                const Tensor x = layer_norm(t[0], 1, t[1], t[2]);
                return matmul(x, t[3]) * matmul(x, transpose(t[3]));
              }).empty());
}

}  // namespace
}  // namespace athanor
