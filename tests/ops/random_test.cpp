// Random numbers: streams, seeds and distributions.
#include "athanor/ops/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;
constexpr int64_t many = 200000;

TEST(Random, OneSeedGivesOneStream) {
  Generator a(5), b(5), c(6);
  const auto first = uniform({100}, 0, 1, DType::f32, a).to_vector<float>();
  EXPECT_EQ(uniform({100}, 0, 1, DType::f32, b).to_vector<float>(), first);
  EXPECT_NE(uniform({100}, 0, 1, DType::f32, c).to_vector<float>(), first);
  EXPECT_NE(uniform({100}, 0, 1, DType::f32, a).to_vector<float>(), first);
  // The shape does not change the stream.
  b.seed(5);
  EXPECT_EQ(uniform({4, 25}, 0, 1, DType::f32, b).to_vector<float>(), first);
}

TEST(Random, StateIsTakenUpAgain) {
  Generator a(5);
  (void)normal({3}, 0, 1, DType::f32, a);
  const auto state = a.state();
  const auto expected = permutation(50, a).to_vector<int64_t>();
  Generator b;
  b.restore(state);
  EXPECT_EQ(permutation(50, b).to_vector<int64_t>(), expected);
  manual_seed(9);
  const double one = uniform({}).item();
  manual_seed(9);
  EXPECT_EQ(uniform({}).item(), one);
}

TEST(Random, AnotherKeyNeedsNoNewPlan) {
  clear_plan_cache();
  (void)uniform({10}).eval();
  reset_evaluation_stats();
  (void)uniform({10}).eval();
  (void)uniform({10}).eval();
  EXPECT_EQ(evaluation_stats().plans_compiled, 0);
}

struct Sample {
  double mean = 0, variance = 0, low = 0, high = 0;
};
Sample describe(const Tensor& x) {
  const auto values = to_doubles(x.to_host());
  Sample s;
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  for (double v : values) s.variance += (v - s.mean) * (v - s.mean) / static_cast<double>(values.size());
  s.low = *std::min_element(values.begin(), values.end());
  s.high = *std::max_element(values.begin(), values.end());
  return s;
}

TEST(Random, Uniform) {
  Generator g(1);
  const Sample s = describe(uniform({many}, -2, 4, DType::f32, g));
  EXPECT_NEAR(s.mean, 1, 5 * std::sqrt(3.0 / many));
  EXPECT_NEAR(s.variance, 3, 0.03);
  EXPECT_GE(s.low, -2);
  EXPECT_LT(s.high, 4);
  // Sixteen equal bins: chi squared with 15 degrees of freedom exceeds 37.7 once in a thousand.
  std::vector<double> bins(16, 0);
  for (float v : uniform({many}, 0, 1, DType::f32, g).to_vector<float>()) ++bins[static_cast<size_t>(v * 16)];
  double chi = 0;
  for (double n : bins) chi += (n - many / 16.0) * (n - many / 16.0) / (many / 16.0);
  EXPECT_LT(chi, 37.7);
}

TEST(Random, Normal) {
  Generator g(2);
  const Tensor x = normal({many}, 3, 2, DType::f32, g);
  const Sample s = describe(x);
  EXPECT_NEAR(s.mean, 3, 5 * 2 / std::sqrt(many));
  EXPECT_NEAR(s.variance, 4, 0.08);
  const double inside = mean(cast(abs(x - 3) < 2, DType::f64)).item();
  EXPECT_NEAR(inside, 0.6827, 0.006);
  EXPECT_TRUE(std::isfinite(s.low) && std::isfinite(s.high));
  EXPECT_GT(s.high, 9);
  EXPECT_EQ(normal({4}, 0, 1, DType::bf16, g).dtype(), DType::bf16);
}

TEST(Random, BernoulliAndIntegers) {
  Generator g(3);
  EXPECT_NEAR(mean(bernoulli({many}, 0.3, g)).item(), 0.3, 0.006);
  EXPECT_EQ(sum(bernoulli({1000}, 0, g)).item(), 0);
  EXPECT_EQ(sum(bernoulli({1000}, 1, g)).item(), 1000);
  const auto dice = random_integers({many}, 1, 7, g).to_vector<int64_t>();
  for (int64_t face = 1; face <= 6; ++face)
    EXPECT_NEAR(static_cast<double>(std::count(dice.begin(), dice.end(), face)), many / 6.0, 800);
}

TEST(Random, Permutations) {
  Generator g(4);
  const auto order = permutation(1000, g).to_vector<int64_t>();
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999);
  EXPECT_NE(order, permutation(1000, g).to_vector<int64_t>());
  EXPECT_EQ(permutation(0, g).size(), 0);
  EXPECT_EQ(permutation(1, g).item(), 0);
  std::set<std::vector<int64_t>> orders;
  for (int i = 0; i < 60; ++i) orders.insert(permutation(3, g).to_vector<int64_t>());
  EXPECT_EQ(orders.size(), 6U);
}

TEST(Random, Dropout) {
  Generator g(5);
  Tensor x = ones({many});
  x.requires_grad();
  const Tensor y = dropout(x, 0.25, true, g);
  const Sample s = describe(y);
  EXPECT_NEAR(s.mean, 1, 0.01);
  EXPECT_EQ(s.low, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(s.high), 4.0F / 3);
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>());  // both have the same mask
  EXPECT_EQ(dropout(x, 0.25, false, g).node(), x.node());
}

TEST(Random, Errors) {
  expect_error(ErrorCode::value, {"uniform", "[2, 1) is empty", "random_test.cpp"},
               [] { uniform({1}, 2, 1); });
  expect_error(ErrorCode::value, {"bernoulli", "probability of 1.5"}, [] { bernoulli({1}, 1.5); });
  expect_error(ErrorCode::value, {"dropout", "[0, 1)"}, [] { dropout(ones({1}), 1); });
  expect_error(ErrorCode::dtype, {"uniform of i64"}, [] { uniform({1}, 0, 1, DType::i64); });
}

}  // namespace
}  // namespace athanor
