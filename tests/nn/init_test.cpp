// Initial values: their statistics, and that the seed determines them.
#include "athanor/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../support/expect_error.h"
#include "athanor/nn/nn.h"

namespace athanor::nn {
namespace {

struct Statistics {
  double mean = 0, stddev = 0, low = 0, high = 0;
};

Statistics of(const Tensor& x) {
  const auto values = to_doubles(x.to_host());
  const double n = static_cast<double>(values.size());
  Statistics s;
  for (double v : values) s.mean += v / n;
  for (double v : values) s.stddev += (v - s.mean) * (v - s.mean) / n;
  s.stddev = std::sqrt(s.stddev);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  s.low = *low, s.high = *high;
  return s;
}

// With 200,000 values, the standard deviation is known to 0.5 % (5 sigma).
const Shape large{250, 800};

void expect_uniform(const Tensor& x, double bound) {
  const Statistics s = of(x);
  EXPECT_NEAR(s.mean, 0, bound * 0.01);
  EXPECT_NEAR(s.stddev, bound / std::sqrt(3.0), bound * 0.01);
  EXPECT_GE(s.low, -bound);
  EXPECT_LE(s.high, bound);
  EXPECT_LT(s.low, -0.999 * bound);
  EXPECT_GT(s.high, 0.999 * bound);
}

void expect_normal(const Tensor& x, double stddev) {
  const Statistics s = of(x);
  EXPECT_NEAR(s.mean, 0, stddev * 0.02);
  EXPECT_NEAR(s.stddev, stddev, stddev * 0.01);
  EXPECT_GT(s.high, 4 * stddev);
}

TEST(Init, Statistics) {
  manual_seed(11);
  expect_uniform(init::xavier_uniform(large, 2), 2 * std::sqrt(6.0 / 1050));
  expect_normal(init::xavier_normal(large), std::sqrt(2.0 / 1050));
  expect_uniform(init::kaiming_uniform(large, {.nonlinearity = "relu"}), std::sqrt(6.0 / 800));
  expect_normal(init::kaiming_normal(large, {.nonlinearity = "relu", .fan = init::Fan::out}),
                std::sqrt(2.0 / 250));
  expect_uniform(init::layer_weight(large), 1 / std::sqrt(800.0));
  expect_uniform(init::layer_bias({100000}, {100000, 400}), 1 / std::sqrt(400.0));
  expect_normal(init::normal(large, 0, 0.02), 0.02);
  EXPECT_EQ(init::constant({2}, 3).to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Init, TruncatedNormal) {
  manual_seed(12);
  const Statistics s = of(init::trunc_normal(large, 0, 1, -2, 2));
  EXPECT_GE(s.low, -2);
  EXPECT_LE(s.high, 2);
  EXPECT_GT(s.high, 1.99);
  EXPECT_NEAR(s.mean, 0, 0.01);
  EXPECT_NEAR(s.stddev, 0.87962566, 0.01);  // of a standard normal, cut at two standard deviations
  // Far in one tail of the distribution.
  const Statistics tail = of(init::trunc_normal(large, 0, 1, 2, 3));
  EXPECT_GE(tail.low, 2);
  EXPECT_LE(tail.high, 3);
  EXPECT_NEAR(tail.mean, 2.3158, 0.01);
  testing::expect_error(ErrorCode::value, {"low < high"}, [] { init::trunc_normal({2}, 0, 1, 1, 0); });
}

TEST(Init, Fans) {
  EXPECT_EQ(init::fans_of({6, 4, 3, 2}).in, 24);
  EXPECT_EQ(init::fans_of({6, 4, 3, 2}).out, 36);
  testing::expect_error(ErrorCode::shape, {"[6]"}, [] { init::fans_of({6}); });
  EXPECT_DOUBLE_EQ(init::gain("tanh"), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::gain("leaky_relu", std::sqrt(5.0)), std::sqrt(1.0 / 3));
  testing::expect_error(ErrorCode::name, {"'rleu'", "relu"}, [] { init::gain("rleu"); });
}

TEST(Init, TheSeedDecides) {
  const auto values = [](uint64_t seed) {
    manual_seed(seed);
    return make_model("cnn", {1, 28, 28}, 10)->state_dict();
  };
  const StateDict first = values(7), again = values(7), other = values(8);
  for (const auto& [name, array] : first) {
    EXPECT_EQ(array.bytes, again.at(name).bytes) << name;
    EXPECT_NE(array.bytes, other.at(name).bytes) << name;
  }
}

TEST(Init, DefaultsOfLayers) {
  manual_seed(13);
  const Conv2d conv(64, 256, 3);
  expect_uniform(conv.weight.value(), 1 / std::sqrt(64 * 9.0));
  const BatchNorm2d norm(3);
  EXPECT_EQ(norm.weight.value().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(norm.running_var.value().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(norm.bias.value().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace athanor::nn
