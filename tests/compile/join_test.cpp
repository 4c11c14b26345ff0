// Loops that run in one launch: which may join, that results are the same bit for bit, and that memory hardly
// grows.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "athanor/compile/canonical_loop.h"
#include "athanor/compile/plan.h"
#include "athanor/nn/models.h"
#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/training_step.h"

namespace athanor {
namespace {

// A GPU that need not exist: one can make plans for it.
Device no_gpu() { return parse_device("offline"); }

std::shared_ptr<const Plan> plan_of_step(const std::string& name, const std::string& optimizer_name) {
  const auto model = nn::make_model(name, {3, 16, 16}, 10);
  model->to(no_gpu());
  const auto optimizer = optim::make_optimizer(optimizer_name, model->parameters());
  eval({});
  const Tensor pictures = Tensor::from(HostArray(DType::f32, {4, 3, 16, 16}), no_gpu());
  const Tensor labels = Tensor::from(HostArray(DType::i64, {4}), no_gpu());
  const PendingStep step = training_step(*model, *optimizer, pictures, labels);
  return plan_for({step.loss});
}

bool writes_in_place(const Plan& plan, const PlanStep& step) {
  return std::ranges::any_of(step.writes, [&](int v) {
    const PlanValue& value = plan.values[static_cast<size_t>(v)];
    return value.kind == PlanValue::Kind::output && value.in_place_of >= 0;
  });
}

// Counts launches of elementwise loops that only update values.
int update_launches(const Plan& plan) {
  int count = 0;
  for (const PlanStep& step : plan.steps)
    count += !step.loops.empty() && step.loops.front().reductions.empty() && writes_in_place(plan, step);
  return count;
}

int updated_in_place(const Plan& plan) {
  int count = 0;
  for (int output : plan.outputs) count += plan.values[static_cast<size_t>(output)].in_place_of >= 0;
  return count;
}

// Checks that a step's inputs were written before it and not overwritten before it.
void expect_ordered(const Plan& plan) {
  std::set<int> written(plan.inputs.begin(), plan.inputs.end()), overwritten;
  for (const PlanStep& step : plan.steps) {
    for (int v : step.reads) {
      EXPECT_TRUE(written.contains(v)) << step.name_and_parts();
      EXPECT_FALSE(overwritten.contains(v)) << step.name_and_parts();
    }
    for (int v : step.writes) {
      written.insert(v);
      if (const int in = plan.values[static_cast<size_t>(v)].in_place_of; in >= 0) overwritten.insert(in);
    }
  }
}

TEST(Join, UpdatesOfManyParametersShareALaunch) {
  for (const char* optimizer : {"sgd", "adam"}) {
    SCOPED_TRACE(optimizer);
    const auto together = plan_of_step("resnet18", optimizer);
    const ScopedDisable off("join");
    const auto alone = plan_of_step("resnet18", optimizer);
    EXPECT_GE(update_launches(*alone), 20);
    EXPECT_LE(3 * update_launches(*together), update_launches(*alone));
    EXPECT_EQ(updated_in_place(*together), updated_in_place(*alone));
    EXPECT_EQ(together->flops(), alone->flops());
    EXPECT_EQ(together->bytes(), alone->bytes());
    EXPECT_NE(explain(*together).find(" parameters "), std::string::npos) << explain(*together);
    expect_ordered(*together);
    // The limit of join.cpp, which counts neither the small gaps between temporaries nor the scratch memory
    // of kernels, because these are chosen later.
    size_t scratch = 0;
    for (const PlanStep& step : together->steps) scratch = std::max(scratch, step.kernel.scratch_bytes);
    EXPECT_LE(static_cast<double>(together->arena_bytes()),
              static_cast<double>(alone->arena_bytes()) * 1.02 + static_cast<double>(scratch) +
                  std::max(4.0 * (1 << 20), static_cast<double>(alone->planned_memory_bytes()) / 16));
    for (const PlanStep& step : together->steps) {
      EXPECT_LE(step.buffers.size(), 64U) << step.name();  // the device's limit
      if (step.loops.size() > 1 && !step.chained && writes_in_place(*together, step)) {
        EXPECT_TRUE(step.name().starts_with("update of ")) << step.name();
      }
    }
  }
}

TEST(Join, NotWithAnyOtherDeviceNorWhileLookingForNaN) {
  const auto largest = [](Device device) {
    const Tensor p = Tensor::from(HostArray(DType::f32, {30}), device),
                 q = Tensor::from(HostArray(DType::f32, {40}), device);
    const Tensor a = p * 2.0 + 1.0, b = q * 2.0 + 1.0;
    size_t most = 0;
    for (const PlanStep& step : plan_for({a, b})->steps) most = std::max(most, step.loops.size());
    return most;
  };
  EXPECT_EQ(largest(no_gpu()), 2U);
  EXPECT_EQ(largest({}), 1U);
  compile_options().check_nan = true;
  EXPECT_EQ(largest(no_gpu()), 1U);
  compile_options().check_nan = false;
}

Tensor ramp(int64_t size, double scale, Device device) {
  std::vector<double> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * (static_cast<double>(i % 23) - 11);
  return Tensor::from(from_doubles(DType::f32, {size}, values), device);
}

// Updates that look alike: some read others' results, some read values that others overwrite.
std::vector<std::vector<float>> tangled_updates(Device device) {
  const Tensor g = ramp(40, 0.3, device);
  Tensor a = ramp(40, 0.1, device), b = ramp(20, 0.2, device), c = ramp(30, 0.4, device),
         d = ramp(7, 0.5, device);
  b = b - 0.5 * slice(a, 0, 2, 22);  // the old a
  a = a - 0.5 * g;
  c = c - 0.5 * slice(a, 0, 1, 31);  // the new a
  d = d - 0.5 * slice(g, 0, 0, 7);
  eval({a, b, c, d});
  expect_ordered(*last_plan());
  return {a.to_vector<float>(), b.to_vector<float>(), c.to_vector<float>(), d.to_vector<float>()};
}

TEST(Join, WhatNeedsEachOtherRunsInOrder) {
  const auto want = tangled_updates({});
  for (const DeviceInfo& info : list_devices()) {
    SCOPED_TRACE(to_string(info.device));
    const auto got = tangled_updates(info.device);
    for (size_t i = 0; i < want.size(); ++i)
      for (size_t k = 0; k < want[i].size(); ++k) ASSERT_NEAR(got[i][k], want[i][k], 1e-5) << i << " " << k;
  }
}

// x' = x + k a, with its loads in the given order; `buffers` are the numbers of x, a, k and x'.
LoopProgram update(const std::vector<int>& order, const std::array<int, 4>& buffers) {
  LoopProgram loop;
  loop.space = {50};
  loop.reduced = {false};
  loop.buffers = 4;
  std::array<int, 3> loaded{};
  for (int which : order) {
    loop.operands.push_back({buffers[static_cast<size_t>(which)], DType::f32, 0, {which == 2 ? 0 : 1}});
    loaded[static_cast<size_t>(which)] = static_cast<int>(loop.body.size());
    LoopStep load;
    load.kind = LoopStep::Kind::load;
    load.operand = static_cast<int>(loop.operands.size()) - 1;
    loop.body.push_back(load);
  }
  const auto [x, a, k] = loaded;
  LoopStep mul, add;
  mul.prim = Prim::mul, mul.a = k, mul.b = a;
  add.prim = Prim::add, add.a = x, add.b = 3;
  loop.body.push_back(mul);
  loop.body.push_back(add);
  loop.operands.push_back({buffers[3], DType::f32, 0, {1}});
  loop.stores.push_back({4, 3});
  return loop;
}

TEST(Join, LoopsThatComputeTheSameAreWrittenTheSame) {
  const CanonicalLoop one = canonical(update({0, 1, 2}, {0, 1, 2, 3}));
  const CanonicalLoop other = canonical(update({2, 1, 0}, {3, 2, 1, 0}));
  EXPECT_TRUE(same_program(one.program, other.program));
  EXPECT_EQ(one.buffers, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(other.buffers, (std::vector<int>{3, 1, 2, 0}));
  LoopProgram product = update({0, 1, 2}, {0, 1, 2, 3});
  product.body.back().prim = Prim::mul;
  EXPECT_FALSE(same_program(one.program, canonical(product).program));
}

// y = sqrt(sum(x x)), with steps, operands and buffers in other orders.
LoopProgram length(std::array<int, 2> buffers, bool negated_first) {
  LoopProgram loop;
  loop.space = {64};
  loop.reduced = {true};
  loop.buffers = 2;
  const auto step = [](Prim prim, int a, int b) {
    LoopStep one;
    one.prim = prim, one.a = a, one.b = b;
    return one;
  };
  LoopStep load;
  load.kind = LoopStep::Kind::load, load.operand = 0;
  loop.operands = {{buffers[0], DType::f32, 0, {1}}, {buffers[1], DType::f32, 0, {0}}};
  loop.body = {load};
  if (negated_first) loop.body.push_back(step(Prim::neg, 0, -1));  // which nothing reads
  const auto body = static_cast<int>(loop.body.size());
  loop.body.push_back(step(Prim::mul, 0, 0));
  loop.reductions = {{Prim::sum, body, DType::f32}};
  loop.epilogue = {step(Prim::sqrt, body + 1, -1)};
  loop.epilogue_stores = {{body + 2, 1}};
  return loop;
}

TEST(Join, ReductionsThatComputeTheSameAreWrittenTheSame) {
  const CanonicalLoop one = canonical(length({0, 1}, false)), other = canonical(length({1, 0}, true));
  EXPECT_EQ(one.program, length({0, 1}, false));
  EXPECT_TRUE(same_program(one.program, other.program)) << to_string(other.program);
  EXPECT_EQ(other.buffers, (std::vector<int>{1, 0}));
  LoopProgram maximum = length({0, 1}, false);
  maximum.reductions[0].prim = Prim::reduce_max;
  EXPECT_FALSE(same_program(one.program, canonical(maximum).program));
}

/// The length of all gradients together needs a sum for each of them: short ones share launches, long ones,
/// and those that also store something for each element, do not.
TEST(Join, ShortReductionsShareALaunch) {
  const auto launches = [](int64_t extent, bool stores) {
    std::vector<Tensor> outputs;
    for (int i = 0; i < 40; ++i) {
      const Tensor x = Tensor::from(HostArray(DType::f32, {extent}), no_gpu());
      const Tensor y = x * x;
      outputs.push_back(sum(y));
      if (stores) outputs.push_back(y);
    }
    int count = 0;
    for (const PlanStep& step : plan_for(outputs)->steps)
      count += !step.loops.empty() && !step.loops.front().reductions.empty();
    return count;
  };
  EXPECT_EQ(launches(100, false), 2);  // of at most 64 buffers each
  EXPECT_EQ(launches(5000, false), 40);
  EXPECT_EQ(launches(100, true), 40);
  const ScopedDisable off("join");
  EXPECT_EQ(launches(100, false), 40);
}

/// The largest of many numbers: as few launches as their buffers allow, each with the result before.
TEST(Join, NumbersThatFollowAreOneLoop) {
  const auto chain = [](Device device) {
    std::vector<Tensor> numbers;
    for (int i = 0; i < 130; ++i)
      numbers.push_back(Tensor::from(std::vector<float>{static_cast<float>(i * 37 % 131)}, {}, device));
    Tensor largest = numbers[0], total = numbers[0];
    for (size_t i = 1; i < numbers.size(); ++i) {
      largest = maximum(largest, numbers[i]);
      total = total + numbers[i];
    }
    return std::vector<Tensor>{largest, total};
  };
  const auto plan = plan_for(chain(no_gpu()));
  EXPECT_LE(plan->steps.size(), 6U) << explain(*plan);
  for (const PlanStep& step : plan->steps) EXPECT_LE(step.buffers.size(), 64U);
  double total = 0;
  for (int i = 0; i < 130; ++i) total += i * 37 % 131;
  for (const DeviceInfo& info : list_devices()) {
    const auto values = chain(info.device);
    eval(values);
    EXPECT_EQ(values[0].item(), 130) << to_string(info.device);
    EXPECT_EQ(values[1].item(), total) << to_string(info.device);
  }
}

}  // namespace
}  // namespace athanor
