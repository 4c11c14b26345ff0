// Variances of f16 and bf16 are computed in one pass over the numbers, as exactly as these are.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

std::vector<Device> devices() {
  std::vector<Device> all = {Device{}};
  for (const auto& gpu : testing::gpu_devices()) all.push_back(gpu.device);
  return all;
}

double variance(const std::vector<float>& numbers) {
  double mean = 0, sum = 0;
  for (const float x : numbers) mean += x / static_cast<double>(numbers.size());
  for (const float x : numbers) sum += (x - mean) * (x - mean);
  return sum / static_cast<double>(numbers.size());
}

Tensor in_f32(const Tensor& x) { return cast(x, DType::f32); }
Moments moments_in_f32(const Tensor& x, const Axes& axes) { return moments(in_f32(x), axes); }

// The error grows with the square of the mean in deviations. At the largest mean here, numbers of bf16 are
// one deviation apart, and those of f16 an eighth.
TEST(OnePassVariance, IsNearlyAsExactAsTheNumbers) {
  std::mt19937 random(3);
  constexpr int count = 70000;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const double mean : {0.0, -1.0, 16.0, 128.0}) {
      std::normal_distribution<float> normal(static_cast<float>(mean), 1);
      std::vector<float> exact(count);
      for (float& x : exact) x = normal(random);
      const Tensor x = cast(Tensor::from(exact, {count, 1}), dtype).eval();
      const double rounded = variance(in_f32(x).to_vector<float>());
      for (const Device device : devices()) {
        const double here = moments_in_f32(x.to(device), {0}).var.to_vector<float>()[0];
        EXPECT_NEAR(here / rounded, 1, 40 * 0x1p-24 * (1 + mean * mean))
            << to_string(dtype) << " " << mean << " " << to_string(device);
        // What bf16 itself has changed is more.
        if (dtype == DType::bf16 && mean >= 16) {
          EXPECT_LT(std::abs(here / rounded - 1), std::abs(rounded / variance(exact) - 1)) << mean;
        }
      }
    }
}

TEST(OnePassVariance, OfEqualNumbersIsNeverNegative) {
  for (const Device device : devices())
    for (const float number : {0.F, 1.F, 0.333F, -47.3F, 900.F}) {
      const Tensor x = full({5000, 7}, number, DType::bf16, device).eval();
      const double square = number * number;
      for (const float v : moments_in_f32(x, {0}).var.to_vector<float>()) {
        EXPECT_GE(v, 0);
        EXPECT_LE(v, square * 40 * 0x1p-24);
      }
      for (const float v : in_f32(batch_norm(x)).to_vector<float>()) ASSERT_NEAR(v, 0, 0.02);
    }
}

TEST(OnePassVariance, OfNumbersThatAreNotFiniteIsNaN) {
  for (const Device device : devices())
    for (const float number : {INFINITY, -INFINITY, NAN}) {
      const Tensor x = cast(Tensor::from(std::vector<float>{1, 2, number, 3}, {4, 1}), DType::f16);
      EXPECT_TRUE(std::isnan(moments_in_f32(x.to(device), {0}).var.to_vector<float>()[0])) << number;
    }
}

TEST(OnePassVariance, TakesOneStep) {
  const auto steps = [](DType dtype) {
    const Tensor x = cast(iota({512, 9}, 0), dtype).eval();
    const Moments m = moments_in_f32(x, {0});
    return plan_for({m.mean, m.var})->steps.size();
  };
  EXPECT_EQ(steps(DType::bf16), 1U);
  EXPECT_EQ(steps(DType::f16), 1U);
  EXPECT_EQ(steps(DType::f32), 2U);  // cancellation could leave nothing
}

// Sums of squares around something else keep their meaning.
TEST(OnePassVariance, LeavesOtherSums) {
  std::vector<float> numbers(36);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * i % 11);
  const Tensor x = cast(Tensor::from(numbers, {6, 6}), DType::bf16).eval(), wide = in_f32(x);
  const auto expect_squares = [&](const Tensor& centre, const std::function<double(size_t, size_t)>& number) {
    const auto sums = sum(square(wide - centre), {0}).to_vector<float>();
    for (size_t column = 0; column < 6; ++column) {
      double expected = 0;
      for (size_t row = 0; row < 6; ++row)
        expected += std::pow(numbers[row * 6 + column] - number(row, column), 2);
      EXPECT_NEAR(sums[column], expected, 1e-5 * expected) << column;
    }
  };
  const auto of_column = [&](size_t column) {
    double total = 0;
    for (size_t row = 0; row < 6; ++row) total += numbers[row * 6 + column];
    return total;
  };
  const auto of_row = [&](size_t row) {
    double total = 0;
    for (size_t column = 0; column < 6; ++column) total += numbers[row * 6 + column];
    return total;
  };
  expect_squares(sum(wide, {0}, true) / 6, [&](size_t, size_t column) { return of_column(column) / 6; });
  // Not the mean.
  expect_squares(sum(wide, {0}, true) / 5, [&](size_t, size_t column) { return of_column(column) / 5; });
  // Means of columns, but one for each row.
  expect_squares(reshape(sum(wide, {0}) / 6, {6, 1}), [&](size_t row, size_t) { return of_column(row) / 6; });
  // Means of rows.
  expect_squares(sum(wide, {1}, true) / 6, [&](size_t row, size_t) { return of_row(row) / 6; });
  // Of other numbers.
  expect_squares(sum(square(wide), {0}, true) / 6, [&](size_t, size_t column) {
    double total = 0;
    for (size_t row = 0; row < 6; ++row) total += std::pow(numbers[row * 6 + column], 2);
    return total / 6;
  });
}

}  // namespace
}  // namespace athanor
