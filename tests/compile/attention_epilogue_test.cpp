// Loops that read what attention or a gradient of it computes run in its kernel, and values stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/sine.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

std::vector<Tensor> given;  // inputs that are used again, so that no result takes over their memory

Tensor sine(const Shape& shape, double step, Device device, DType dtype) {
  return given.emplace_back(testing::sine(shape, step, device, dtype));
}

using Computed = std::function<std::vector<Tensor>(Device, DType)>;

constexpr int64_t texts = 2, rows = 21, heads = 3, features = 8;

/// Some of one projection [texts, rows, 3 heads features], as heads.
Tensor heads_of(const Tensor& x, int64_t part) {
  const Tensor one = slice(x, 2, part * heads * features, (part + 1) * heads * features);
  return permute(reshape(one, {texts, rows, heads, features}), {0, 2, 1, 3});
}
Tensor joined(const Tensor& y) { return reshape(permute(y, {0, 2, 1, 3}), {texts, rows, heads * features}); }

class AttentionEpilogues : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    gpu_ = testing::gpu_devices().front().device;
    compile_options().deterministic = true;
  }
  void TearDown() override {
    given.clear();
    compile_options().deterministic = before_;
  }

  /// The names of the plan's steps on the GPU from the one on that begins with the op.
  std::vector<std::string> steps_from(const std::string& op, const Computed& computed) const {
    std::vector<std::string> names;
    for (const PlanStep& step : plan_for(computed(gpu_, GetParam()))->steps)
      if (!names.empty() || step.name().starts_with(op)) names.push_back(step.name());
    return names;
  }
  /// The first of these; "" if there is none.
  std::string step_of(const std::string& op, const Computed& computed) const {
    const std::vector<std::string> names = steps_from(op, computed);
    return names.empty() ? "" : names.front();
  }

  /// Compares the values on the GPU with those on the CPU without epilogues.
  void expect_same(const Computed& computed) const {
    const auto floats = [](const Tensor& x) { return cast(x, DType::f32).to(Device{}).to_vector<float>(); };
    const std::vector<Tensor> here = computed(gpu_, GetParam());
    eval(here);
    const ScopedDisable off("epilogue");
    const std::vector<Tensor> there = computed({}, GetParam());
    eval(there);
    const double allowed = GetParam() == DType::f32 ? 1e-4 : 8e-3;
    for (size_t i = 0; i < here.size(); ++i) {
      const auto a = floats(here[i]), b = floats(there[i]);
      ASSERT_EQ(a.size(), b.size());
      double largest = 1e-3;
      for (const float v : b) largest = std::max(largest, std::abs(static_cast<double>(v)));
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], allowed * largest) << i << " " << k;
    }
  }

  Device gpu_;
  bool before_ = compile_options().deterministic;
};

// The gate is read where the result is stored: beside the other heads of its text.
TEST_P(AttentionEpilogues, Gate) {
  const Computed gated = [](Device device, DType dtype) -> std::vector<Tensor> {
    const Tensor x = sine({texts, rows, 3 * heads * features}, 0.7, device, dtype),
                 gate = sine({texts, rows, heads * features}, 0.3, device, dtype),
                 weight = sine({heads * features, 5}, 0.2, device, dtype);
    const Tensor y =
        scaled_dot_product_attention(heads_of(x, 0), heads_of(x, 1), heads_of(x, 2), {}, {.causal = true});
    return {matmul(joined(y) * sigmoid(gate), weight)};
  };
  const std::vector<std::string> names = steps_from("scaled_dot_product_attention", gated);
  ASSERT_EQ(names.size(), 2U) << explain(*plan_for(gated(gpu_, GetParam())));
  EXPECT_NE(names[0].find("+mul"), std::string::npos) << names[0];
  EXPECT_EQ(names[1], "batch_matmul");
  expect_same(gated);
}

TEST_P(AttentionEpilogues, ResidualInAnotherType) {
  const Computed added = [](Device device, DType dtype) -> std::vector<Tensor> {
    const Tensor x = sine({texts, rows, 3 * heads * features}, 0.7, device, dtype),
                 residual = sine({texts, rows, heads * features}, 0.3, device, DType::f32),
                 of_heads = sine({heads, 1}, 0.9, device, dtype);
    const Tensor y = scaled_dot_product_attention(heads_of(x, 0), heads_of(x, 1), heads_of(x, 2));
    const Tensor scaled = permute(y, {0, 2, 1, 3}) * of_heads;
    return {cast(reshape(scaled, {texts, rows, heads * features}), DType::f32) + residual};
  };
  EXPECT_EQ(plan_for(added(gpu_, GetParam()))->steps.size(), 1U)
      << explain(*plan_for(added(gpu_, GetParam())));
  expect_same(added);
}

// In training the gradient reads the result, so the kernel stores it beside the log-sum-exp and what the gate
// makes of it.
TEST_P(AttentionEpilogues, InTraining) {
  const Computed trained = [](Device device, DType dtype) -> std::vector<Tensor> {
    Tensor x = sine({texts, rows, 3 * heads * features}, 0.7, device, dtype).requires_grad();
    Tensor gate = sine({texts, rows, heads * features}, 0.3, device, dtype).requires_grad();
    const Tensor weight = sine({heads * features, 5}, 0.2, device, dtype);
    const Tensor y =
        scaled_dot_product_attention(heads_of(x, 0), heads_of(x, 1), heads_of(x, 2), {}, {.causal = true});
    const Tensor z = cast(matmul(joined(y) * sigmoid(gate), weight), DType::f32);
    sum(z * z).backward();
    return {z, x.grad(), gate.grad()};
  };
  EXPECT_TRUE(step_of("scaled_dot_product_attention", trained)
                  .starts_with("scaled_dot_product_attention+attention_lse+"))
      << explain(*plan_for(trained(gpu_, GetParam())));
  expect_same(trained);
}

// What scales the queries scales their gradient, which may be of another type.
TEST_P(AttentionEpilogues, OfTheGradientByQueries) {
  const Computed scaled = [](Device device, DType dtype) -> std::vector<Tensor> {
    const Shape shape{texts, heads, rows, features};
    Tensor q = sine(shape, 0.7, device, DType::f32).requires_grad();
    Tensor k = sine(shape, 0.4, device, dtype).requires_grad();
    const Tensor v = sine(shape, 0.3, device, dtype), factor = sine({heads, 1, 1}, 0.9, device, DType::f32);
    const Tensor y = scaled_dot_product_attention(cast(q * factor, dtype), k, v);
    sum(cast(y, DType::f32) * cast(y, DType::f32)).backward();
    return {q.grad(), k.grad()};
  };
  EXPECT_NE(step_of("attention_grad_q", scaled).find("+mul"), std::string::npos)
      << explain(*plan_for(scaled(gpu_, GetParam())));
  expect_same(scaled);
}

// Queries that only attention reads are computed where it reads them.
TEST_P(AttentionEpilogues, ComputedQueries) {
  const Computed computed = [](Device device, DType dtype) -> std::vector<Tensor> {
    const Shape shape{texts, heads, rows, features};
    const Tensor x = sine(shape, 0.7, device, dtype), k = sine(shape, 0.4, device, dtype),
                 v = sine(shape, 0.3, device, dtype), factor = sine({heads, 1, 1}, 0.9, device, dtype),
                 shift = sine({features}, 0.2, device, dtype);
    return {scaled_dot_product_attention(x * factor + shift, k, v)};
  };
  const auto reads_from_memory = [](const MatrixUnit& unit) {
    return unit.form == MatrixUnit::Form::mfma && unit.input == DType::f32;
  };
  // MFMA's lanes read queries in f32 from memory.
  if (GetParam() != DType::f32 ||
      std::ranges::none_of(testing::traits_of(gpu_).matrix_units, reads_from_memory)) {
    EXPECT_EQ(step_of("mul+add+scaled_dot_product_attention", computed),
              "mul+add+scaled_dot_product_attention")
        << explain(*plan_for(computed(gpu_, GetParam())));
  }
  expect_same(computed);
}

// Sums of rows stay a loop behind the kernel.
TEST_P(AttentionEpilogues, LeaveSums) {
  const Computed summed = [](Device device, DType dtype) -> std::vector<Tensor> {
    const Shape shape{texts, heads, rows, features};
    const Tensor q = sine(shape, 0.7, device, dtype), k = sine(shape, 0.4, device, dtype),
                 v = sine(shape, 0.3, device, dtype);
    return {sum(cast(scaled_dot_product_attention(q, k, v), DType::f32), {3})};
  };
  EXPECT_EQ(plan_for(summed(gpu_, GetParam()))->steps.size(), 2U);
  expect_same(summed);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionEpilogues, ::testing::Values(DType::f32, DType::f16),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace athanor
