// Ops that share work become one request with several outputs if the backend can compute them together.
#include <gtest/gtest.h>

#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/kernel.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

struct Gradients {
  std::vector<std::vector<float>> values;
  std::shared_ptr<const Plan> plan;
};

Gradients attention_gradients(Device device) {
  manual_seed(11);
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) {
    qkv.push_back(uniform({2, 3, 40, 8}, -1, 1).eval().to(device).eval());
    qkv.back().requires_grad();
  }
  const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, {.causal = true});
  sum(y * y).backward();
  std::vector<Tensor> grads;
  for (const Tensor& x : qkv) grads.push_back(x.grad());
  eval(grads);
  Gradients result{{}, last_plan()};
  for (const Tensor& gradient : grads) result.values.push_back(gradient.to_vector<float>());
  return result;
}

std::vector<const PlanStep*> steps_of_several_ops(const Plan& plan) {
  std::vector<const PlanStep*> found;
  for (const PlanStep& step : plan.steps)
    if (step.request && !step.request->with.empty()) found.push_back(&step);
  return found;
}

TEST(Together, GradientsByKeysAndValuesAreOneKernelOnGpus) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  const Gradients together = attention_gradients(device), host = attention_gradients(Device{});
  const auto found = steps_of_several_ops(*together.plan);
  ASSERT_EQ(found.size(), 2U) << explain(*together.plan);
  // CPUs have no kernel for all three.
  std::vector<std::string> ops{"attention_grad_k", "attention_grad_v"};
  if (found.back()->ops.size() == 3) ops.insert(ops.begin(), "attention_grad_q");
  EXPECT_EQ(found.back()->ops, ops);
  EXPECT_EQ(found.back()->writes.size(), ops.size());
  EXPECT_EQ(found.back()->request->outputs.size(), ops.size());
  EXPECT_NE(found.back()->request->key().find("attention_grad_k+attention_grad_v"), std::string::npos);
  EXPECT_EQ(steps_of_several_ops(*host.plan).back()->ops.size(), 3U) << explain(*host.plan);
  for (size_t i = 0; i < host.values.size(); ++i)
    for (size_t e = 0; e < host.values[i].size(); ++e)
      ASSERT_NEAR(together.values[i][e], host.values[i][e], 1e-4) << "input " << i << " element " << e;
  const ScopedDisable apart("join");
  const Gradients alone = attention_gradients(device);
  EXPECT_TRUE(steps_of_several_ops(*alone.plan).empty());
  for (size_t i = 0; i < host.values.size(); ++i)
    for (size_t e = 0; e < host.values[i].size(); ++e)
      ASSERT_NEAR(together.values[i][e], alone.values[i][e], 1e-5) << "input " << i << " element " << e;
}

/// The gradients of attention on a GPU without matrix units, which need not exist; of k and v, and of q if
/// `of_q`.
std::shared_ptr<const Plan> plan_without_units(bool of_q) {
  const Device device = parse_device("offline");
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) qkv.push_back(Tensor::from(HostArray(DType::f32, {2, 3, 20, 8}), device));
  for (size_t i = of_q ? 0 : 1; i < 3; ++i) qkv[i].requires_grad();
  const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  sum(y * y).backward();
  std::vector<Tensor> grads;
  for (size_t i = of_q ? 0 : 1; i < 3; ++i) grads.push_back(qkv[i].grad());
  return plan_for(grads);
}

TEST(Together, AllGradientsAreOneRequestWithoutMatrixUnits) {
  const auto all = plan_without_units(true);
  ASSERT_EQ(steps_of_several_ops(*all).size(), 2U) << explain(*all);
  const PlanStep& step = *steps_of_several_ops(*all).back();
  EXPECT_EQ(step.ops, (std::vector<std::string>{"attention_grad_q", "attention_grad_k", "attention_grad_v"}));
  EXPECT_EQ(step.writes.size(), 3U);
  EXPECT_EQ(step.flops, 5 * 2 * 2 * 3 * 20 * 20 * 8);
  EXPECT_TRUE(step.kernel.name.starts_with("attention gradients")) << step.kernel.name;
  const auto some = plan_without_units(false);
  ASSERT_EQ(steps_of_several_ops(*some).size(), 2U) << explain(*some);
  EXPECT_EQ(steps_of_several_ops(*some).back()->ops,
            (std::vector<std::string>{"attention_grad_k", "attention_grad_v"}));
}

// The heads of nn::MultiheadAttention are views of one projection. Two kernels have several results:
// attention with its log-sum-exp, and the gradients by keys and values.
TEST(Together, AttentionOfViewsOnGpus) {
  ATHANOR_NEEDS_GPU();
  Tensor x = uniform({2, 10, 36}, -1, 1).eval().to(testing::gpu_devices().front().device).eval();
  x.requires_grad();
  std::vector<Tensor> heads;
  for (const Tensor& part : chunk(x, 3, 2)) heads.push_back(transpose(reshape(part, {2, 10, 3, 4}), 1, 2));
  const Tensor y = scaled_dot_product_attention(heads[0], heads[1], heads[2]);
  sum(y * y).backward();
  x.grad().eval();
  EXPECT_EQ(steps_of_several_ops(*last_plan()).size(), 2U) << explain(*last_plan());
}

}  // namespace
}  // namespace athanor
