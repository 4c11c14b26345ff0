// Which loops become the prologue of the contraction that reads their result, and that results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "athanor/backends/gpu/backend.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/trial.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

std::vector<Tensor> operands_kept;  // inputs that are used again, so that no result takes over their memory

Tensor operand(const Shape& shape, Device device) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  uint32_t state = 7 + static_cast<uint32_t>(shape.size());
  for (float& v : values)
    v = static_cast<float>(static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) -
                           0.4);
  Tensor x = Tensor::from(values, shape).to(device);
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
    const GpuTraits& traits = testing::traits_of(gpu_);
    for (const auto& units : {traits.matrix_units, traits.lane_units})
      for (const MatrixUnit& unit : units) tiles_ |= unit.input == DType::f32 && !unit.tf32;
    if (!tiles_) GTEST_SKIP() << "this device has no tiles of f32";
  }
  void TearDown() override { operands_kept.clear(); }

  /// The result, not yet evaluated, of operands of these shapes.
  static Tensor of(Device device, const std::vector<Shape>& shapes, const PrologueComputation& computed) {
    Tensors all;
    for (const Shape& shape : shapes) all.push_back(operand(shape, device));
    return computed(all);
  }

  /// The requests of the plan that have a prologue, after checking that every candidate of each computes what
  /// the host does, and that the plan's values are the CPU's.
  std::vector<KernelRequest> check(const std::vector<Shape>& shapes, const PrologueComputation& computed) {
    std::vector<KernelRequest> found;
    for (const PlanStep& step : plan_for({of(gpu_, shapes, computed)})->steps)
      if (step.request && step.request->prologue) found.push_back(*step.request);
    for (const KernelRequest& request : found) {
      const TrialResults host = host_result(request);
      Trial trial(gpu_, request);
      for (const Candidate& one : backend_of(gpu_).candidates(gpu_.index, request))
        EXPECT_TRUE(agree(trial.result(one), host, request)) << one.name << " of " << request.key();
    }
    const auto floats = [](const Tensor& x) { return x.to(Device{}).to_vector<float>(); };
    const auto here = floats(of(gpu_, shapes, computed)), there = floats(of({}, shapes, computed));
    EXPECT_EQ(here.size(), there.size());
    for (size_t i = 0; i < here.size(); ++i)
      EXPECT_NEAR(here[i], there[i], 1e-4 * std::max(1.0F, std::abs(there[i]))) << i;
    return found;
  }

  Device gpu_;
  bool tiles_ = false;
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
