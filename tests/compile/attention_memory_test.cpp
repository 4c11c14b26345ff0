// Attention reads its matrices where they are, writes results in the order in which they are read, computes
// the log-sum-exp in the same kernel, and stores no scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/backends/gpu/backend.h"
#include "athanor/base/threads.h"
#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/sine.h"
#include "tests/support/tile_traits.h"

namespace athanor {
namespace {

/// Multi-head attention of x [texts, T, 3 heads features], as in a transformer: the result and x's gradient.
std::vector<Tensor> heads_of(Device device, DType dtype, int64_t rows, int64_t heads, int64_t features,
                             int64_t texts = 2) {
  Tensor x = testing::sine({texts, rows, 3 * heads * features}, 0.7, device, dtype).requires_grad();
  const Tensor weight = testing::sine({heads * features, 5}, 0.3, device, dtype);
  std::vector<Tensor> parts = chunk(x, 3, 2);
  for (Tensor& part : parts) part = permute(reshape(part, {texts, rows, heads, features}), {0, 2, 1, 3});
  const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, {.causal = true});
  const Tensor z = matmul(reshape(permute(y, {0, 2, 1, 3}), {texts, rows, heads * features}), weight);
  sum(cast(z, DType::f32) * cast(z, DType::f32)).backward();
  return {z, x.grad()};
}

int64_t concats_of(const Plan& plan) {
  return std::ranges::count_if(plan.steps, [](const PlanStep& step) { return step.ops.front() == "concat"; });
}

class AttentionInMemory : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { compile_options().deterministic = true; }
  void TearDown() override { compile_options().deterministic = before_; }

 private:
  bool before_ = compile_options().deterministic;
};

TEST_P(AttentionInMemory, IsReadAndWrittenWhereItLies) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  const auto plan = plan_for(heads_of(gpu, GetParam(), 20, 3, 16));
  size_t steps = 0;
  std::vector<std::string> ops;
  for (const PlanStep& step : plan->steps) {
    EXPECT_EQ(std::ranges::count(step.ops, "copy"), 0) << explain(*plan);
    steps += step.ops.front().find("attention") != std::string::npos;
    std::ranges::copy_if(step.ops, std::back_inserter(ops),
                         [](const std::string& op) { return op.find("attention") != std::string::npos; });
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"scaled_dot_product_attention", "attention_lse",
                                           "attention_grad_q", "attention_grad_k", "attention_grad_v"}));
  EXPECT_LE(steps, 3U) << explain(
      *plan);  // forward with the log-sum-exp; dq; dk with dv, perhaps all gradients
  EXPECT_EQ(concats_of(*plan), steps == 3 ? 1 : 0)
      << explain(*plan);  // one kernel writes all parts of x's gradient
}

TEST_P(AttentionInMemory, GivesTheSameValues) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  const auto& units = testing::traits_of(gpu).matrix_units;
  if (GetParam() != DType::f32 && std::ranges::count(units, GetParam(), &MatrixUnit::input) == 0)
    GTEST_SKIP() << "this device has no matrix units of " << to_string(GetParam())
                 << ": its kernels compute as those of f32";
  const double allowed = GetParam() == DType::f32 ? 1e-4 : 2e-2;
  for (const auto& [rows, heads, features] :
       std::vector<std::array<int64_t, 3>>{{20, 3, 16}, {37, 2, 12}, {9, 1, 7}}) {
    // Timed kernels (9 rows) are compared with the host's, which reads and writes in order.
    compile_options().deterministic = rows > 9;
    const auto here = heads_of(gpu, GetParam(), rows, heads, features);
    const auto there = heads_of({}, DType::f32, rows, heads, features);
    eval(here);
    eval(there);
    for (size_t i = 0; i < here.size(); ++i) {
      const auto a = cast(here[i], DType::f32).to(Device{}).to_vector<float>(),
                 b = there[i].to_vector<float>();
      double largest = 1;
      for (const float v : b) largest = std::max(largest, std::abs(static_cast<double>(v)));
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], allowed * largest) << i << " " << k;
    }
  }
}

TEST(AttentionOnTheHost, StoresNoScoresAndCopiesNothing) {
  set_cpu_threads(2);
  const int64_t rows = 600, heads = 6, features = 8;
  const auto plan = plan_for(heads_of({}, DType::f32, rows, heads, features));
  set_cpu_threads(0);
  const int64_t scores = 2 * heads * rows * rows * static_cast<int64_t>(sizeof(float));
  EXPECT_LT(plan->planned_memory_bytes(), scores / 4) << explain(*plan);
  size_t steps = 0;
  for (const PlanStep& step : plan->steps) {
    EXPECT_EQ(std::ranges::count(step.ops, "copy"), 0) << explain(*plan);
    steps += step.ops.front().find("attention") != std::string::npos;
  }
  EXPECT_EQ(steps, 2U) << explain(*plan);             // forward with the log-sum-exp; all gradients
  EXPECT_EQ(concats_of(*plan), 0) << explain(*plan);  // which are written where x's has them
}

TEST(AttentionOnTheHost, WritesTheSameNumbersIntoAConcatenation) {
  for (const auto& [rows, heads, features, texts] : std::vector<std::array<int64_t, 4>>{
           {200, 3, 16, 2}, {137, 2, 12, 2}, {300, 1, 7, 2}, {200, 3, 4, 1}}) {
    const auto together = heads_of({}, DType::f32, rows, heads, features, texts);
    EXPECT_EQ(concats_of(*plan_for(together)), 0) << rows;
    const auto got = together[1].to_vector<float>();
    const ScopedDisable apart("inplace");
    const auto outputs = heads_of({}, DType::f32, rows, heads, features, texts);
    const auto plan = plan_for(outputs);
    EXPECT_EQ(concats_of(*plan), 1) << explain(*plan);
    EXPECT_EQ(outputs[1].to_vector<float>(), got) << rows;
  }
}

/// The gradients of attention's values, queries and keys.
std::vector<Tensor> gradients() {
  const Shape shape{2, 3, 300, 4};
  Tensor q = testing::sine(shape, 0.7, {}, DType::f32).requires_grad();
  Tensor k = testing::sine(shape, 0.3, {}, DType::f32).requires_grad();
  Tensor v = testing::sine(shape, 0.5, {}, DType::f32).requires_grad();
  const Tensor y = scaled_dot_product_attention(q, k, v);
  sum(y * y).backward();
  return {v.grad(), q.grad(), k.grad()};
}

TEST(AttentionOnTheHost, WritesIntoAConcatenationAlongAnyAxis) {
  const std::vector<Tensor> want = gradients();
  for (int axis = 0; axis < 4; ++axis) {
    const Tensor all = concat(gradients(), axis);
    EXPECT_EQ(concats_of(*plan_for({all})), 0) << axis;
    const std::vector<Tensor> got = chunk(all, 3, axis);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>()) << axis;
  }
}

// Nor what is there twice.
TEST(AttentionOnTheHost, WritesIntoNoConcatenationWhatHasOtherReaders) {
  using Gradients = std::vector<Tensor>;
  const Gradients want = gradients();
  eval(want);
  const auto check = [&](int64_t concats, Gradients (*outputs_of)(const Gradients&)) {
    const Gradients expected = outputs_of(want);
    eval(expected);
    const Gradients outputs = outputs_of(gradients());
    const auto plan = plan_for(outputs);  // the gradients themselves are no outputs: nothing holds them
    EXPECT_EQ(concats_of(*plan), concats) << explain(*plan);
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(outputs[i].to_vector<float>(), expected[i].to_vector<float>()) << i;
  };
  check(0, [](const Gradients& g) { return Gradients{concat(g, 1)}; });
  check(1, [](const Gradients& g) { return Gradients{concat(g, 1), g[1]}; });
  check(1, [](const Gradients& g) { return Gradients{concat(g, 1), sum(g[2])}; });
  check(1, [](const Gradients& g) { return Gradients{concat({g[0], g[1]}, 1), g[2]}; });
  check(1, [](const Gradients& g) { return Gradients{concat({g[0], g[0], g[1], g[2]}, 1)}; });
  check(1, [](const Gradients& g) { return Gradients{concat({g[0], g[1], g[1]}, 1), g[2]}; });
  check(1, [](const Gradients& g) {
    const Tensor all = concat(g, 1);
    return Gradients{concat({all, all}, 1)};
  });
}

// q's features are not adjacent in memory, so it is copied: once for all kernels.
TEST(AttentionOnTheHost, CopiesAnInputOnce) {
  Tensor q = testing::sine({2, 8, 40}, 0.7, {}, DType::f32).requires_grad();
  const Tensor k = testing::sine({2, 40, 8}, 0.3, {}, DType::f32);
  const Tensor y = scaled_dot_product_attention(transpose(q, 1, 2), k, k);
  sum(y * y).backward();
  const auto plan = plan_for({y, q.grad()});
  int64_t copies = 0, steps = 0;
  for (const PlanStep& step : plan->steps) {
    copies += step.request ? 0 : std::ranges::count(step.ops, "copy");
    steps += step.ops.front().find("attention") != std::string::npos;
  }
  EXPECT_EQ(steps, 2) << explain(*plan);
  EXPECT_LE(copies, 2) << "q, and its gradient: " << explain(*plan);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionInMemory, ::testing::Values(DType::f32, DType::f16),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace athanor
