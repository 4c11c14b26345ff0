// Which elementwise ops run in the kernel of the contraction before them, and that results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

std::vector<Tensor> held;  // inputs that are used again, so that no result takes over their memory

Tensor ramp(const Shape& shape, double scale, Device device) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * (static_cast<double>(i % 23) - 11));
  Tensor x = Tensor::from(values, shape).to(device);
  x.eval();
  held.push_back(x);
  return x;
}

using Values = std::vector<Tensor>;
/// Computes values on a device.
using Computation = std::function<Values(Device)>;

std::vector<std::string> step_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanStep& step : plan.steps) names.push_back(step.name());
  return names;
}

std::vector<std::string> names_on(Device device, const Computation& computed) {
  return step_names(*plan_for(computed(device)));
}

/// Compares the values on the device, with epilogues, with those on the CPU without epilogues.
void expect_same_values(Device device, const Computation& computed) {
  const Values here = computed(device);
  eval(here);
  const ScopedDisable off("epilogue");
  const Values there = computed({});
  eval(there);
  for (size_t i = 0; i < here.size(); ++i) {
    const auto a = here[i].to(Device{}).to_vector<float>(), b = there[i].to_vector<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k)
      ASSERT_NEAR(a[k], b[k], 1e-4 * (1 + std::abs(b[k]))) << i << " " << k;
  }
}

class Epilogues : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    gpu_ = testing::gpu_devices().front().device;
  }
  void TearDown() override { held.clear(); }
  Device gpu_;
};

Values feed_forward(Device device) {
  const Tensor x = ramp({2, 6, 20}, 0.1, device), w = ramp({16, 20}, 0.05, device),
               b = ramp({16}, 0.1, device), residual = ramp({2, 6, 16}, 0.2, device),
               scale = ramp({2, 6, 1}, 0.3, device);
  return {gelu(linear(x, w, b)) * scale + residual};
}

TEST_F(Epilogues, TakeAnyChainOnAGpu) {
  EXPECT_EQ(names_on(gpu_, feed_forward).size(), 1U);
  expect_same_values(gpu_, feed_forward);
}

TEST_F(Epilogues, TakeDropoutWithTheMaskOfALoopBefore) {
  const Computation dropped = [](Device device) -> Values {
    const Tensor x = ramp({2, 6, 20}, 0.1, device), w = ramp({16, 20}, 0.05, device),
                 residual = ramp({2, 6, 16}, 0.2, device);
    Generator generator(7);
    return {dropout(linear(x, w), 0.25, true, generator) + residual};
  };
  const auto names = names_on(gpu_, dropped);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[0], "random_uniform+less");
  EXPECT_EQ(names[1], "batch_matmul+mul+where+add");
  expect_same_values(gpu_, dropped);
}

TEST_F(Epilogues, OfImagesReadOtherImagesAndChannels) {
  const Computation block = [](Device device) -> Values {
    const Tensor x = ramp({2, 8, 6, 5}, 0.1, device), w = ramp({12, 8, 3, 3}, 0.05, device),
                 shift = ramp({1, 12, 1, 1}, 0.1, device), skip = ramp({2, 12, 6, 5}, 0.2, device);
    return {silu(conv2d(x, w, {}, {.padding = 1}) * 0.5 + shift) + skip};
  };
  EXPECT_EQ(names_on(gpu_, block).size(), 1U);
  expect_same_values(gpu_, block);
}

TEST_F(Epilogues, OfTwoProductsTheLaterOneAdds) {
  const Computation sum = [](Device device) -> Values {
    const Tensor a = ramp({9, 20}, 0.1, device), b = ramp({20, 7}, 0.05, device),
                 c = ramp({9, 11}, 0.1, device), d = ramp({11, 7}, 0.2, device);
    return {tanh(matmul(a, b) + matmul(c, d))};
  };
  const auto names = names_on(gpu_, sum);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[0], "batch_matmul");
  EXPECT_EQ(names[1], "batch_matmul+add+tanh");
  expect_same_values(gpu_, sum);
}

// A mixture of experts: each row has its group's matrices, and rows behind the last end have none.
TEST_F(Epilogues, OfProductsOfGroups) {
  const Computation experts = [](Device device) -> Values {
    const Tensor x = ramp({40, 20}, 0.1, device), gate = ramp({3, 20, 24}, 0.05, device),
                 up = ramp({3, 20, 24}, 0.04, device),
                 ends = Tensor::from(std::vector<int64_t>{7, 7, 31}, {3}).to(device);
    ends.eval();
    held.push_back(ends);
    return {gelu(grouped_matmul(x, gate, ends)) * grouped_matmul(x, up, ends) + 1.0};
  };
  EXPECT_EQ(names_on(gpu_, experts).size(), 2U);
  expect_same_values(gpu_, experts);
  // As in training, where gradients read what the activation was computed from.
  const Computation kept = [](Device device) -> Values {
    const Tensor x = ramp({40, 20}, 0.1, device), w = ramp({3, 20, 24}, 0.05, device),
                 ends = Tensor::from(std::vector<int64_t>{7, 7, 31}, {3}).to(device);
    const Tensor y = grouped_matmul(x, w, ends);
    return {y + 1.0, gelu(y)};
  };
  expect_same_values(gpu_, kept);
}

TEST_F(Epilogues, LeaveValuesThatOthersUse) {
  const Computation both = [](Device device) -> Values {
    const Tensor x = ramp({9, 20}, 0.1, device), w = ramp({7, 20}, 0.05, device), b = ramp({7}, 0.1, device);
    const Tensor h = linear(x, w, b), y = gelu(h) + 1;
    return {y, h, sum(y * h)};
  };
  // Kernels with matrix units may compute what follows, too, but store h.
  EXPECT_TRUE(names_on(gpu_, both).front().starts_with("batch_matmul+bias"));
  expect_same_values(gpu_, both);
}

TEST_F(Epilogues, DoNotReadWhatDependsOnTheirContraction) {
  const Computation softmaxed = [](Device device) -> Values {
    const Tensor p = matmul(ramp({9, 20}, 0.1, device), ramp({20, 7}, 0.05, device)) * 0.25;
    return {exp(p - max(p, {1}, true))};
  };
  expect_same_values(gpu_, softmaxed);
}

TEST_F(Epilogues, LeaveUpdatesOfParametersToTheirOwnLoop) {
  Tensor p = ramp({20, 7}, 0.1, gpu_);
  held.clear();
  p = p - 0.1 * matmul(ramp({20, 9}, 0.1, gpu_), ramp({9, 7}, 0.05, gpu_));
  const auto plan = plan_for({p});
  EXPECT_EQ(plan->steps.size(), 2U) << explain(*plan);
}

TEST_F(Epilogues, InHalfPrecisionRoundOnce) {
  const Tensor x = cast(ramp({9, 20}, 0.1, gpu_), DType::f16),
               w = cast(ramp({20, 7}, 0.05, gpu_), DType::f16);
  eval({x, w});
  const auto y = [&] { return cast(exp(cast(matmul(x, w), DType::f32) * 0.01), DType::f16); }();
  const auto plan = plan_for({y});
  EXPECT_EQ(plan->steps.size(), 1U) << explain(*plan);
}

TEST(EpiloguesOnTheCpu, AreABiasAndAnActivation) {
  EXPECT_EQ(names_on({}, feed_forward).front(), "batch_matmul+bias");
  EXPECT_EQ(names_on({}, feed_forward).size(), 2U);
  for (const auto& [name, activation] : std::vector<std::pair<std::string, Tensor (*)(Operand)>>{
           {"relu", relu}, {"tanh", tanh}, {"sigmoid", sigmoid}}) {
    const auto names = names_on({}, [&](Device device) -> Values {
      const Tensor x = ramp({2, 8, 6, 5}, 0.1, device), w = ramp({16, 8, 3, 3}, 0.05, device),
                   b = ramp({16}, 0.1, device);
      return {sum(activation(conv2d(x, w, b)))};
    });
    EXPECT_TRUE(std::ranges::find(names, "conv2d+bias+" + name) != names.end()) << name;
  }
}

TEST(EpiloguesOnTheCpu, HaveABiasOfF32InMixedPrecision) {
  const auto names = names_on({}, [](Device device) -> Values {
    const Autocast precision(Precision::bf16);
    return {relu(linear(ramp({9, 20}, 0.1, device), ramp({7, 20}, 0.05, device), ramp({7}, 0.1, device)))};
  });
  EXPECT_TRUE(std::ranges::find(names, "batch_matmul+bias+relu") != names.end());
}

// A weight of products and elements: the product that computes its gradient adds that by the elements.
TEST(EpiloguesOnTheCpu, HaveABiasWithAnAxisOfOne) {
  for (const int64_t width : {1, 8}) {
    const auto gradient = [&](Device device) -> Values {
      const Tensor x = ramp({4, 9, width}, 0.1, device), z = ramp({4, 9, width}, 0.07, device);
      Tensor w = ramp({1, width}, 0.3, device);
      w.requires_grad();
      const Tensor loss = sum(x * w) + sum(linear(tanh(linear(z, w) * z), w) * x);
      return {grad({loss}, {w})[0]};
    };
    expect_same_values({}, gradient);
  }
  held.clear();
}

// Added to an image of one pixel, another one is a bias, in whatever layout it lies.
TEST(EpiloguesOnTheCpu, HaveAnImageOfOnePixelAsABias) {
  const auto both = [](Device device) -> Values {
    const Tensor x = ramp({1, 16, 1, 1}, 0.1, device), w = ramp({16, 16, 1, 1}, 0.05, device);
    const Tensor first = conv2d(x, w), second = conv2d(tanh(first), w);
    return {conv2d(tanh(second), w) + first};
  };
  expect_same_values({}, both);
  held.clear();
}

}  // namespace
}  // namespace athanor
