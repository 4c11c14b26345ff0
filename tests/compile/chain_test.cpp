// Loops that walk the same rows run in one launch: which do, and that results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "athanor/compile/plan.h"
#include "athanor/kernels/row_chain.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

// A GPU that need not exist: one can make plans for it.
Device gpu_of_plans() { return parse_device("offline"); }

Tensor wave(const Ints& shape, double step, Device device) {
  std::vector<double> values(static_cast<size_t>(Shape(shape).size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<double>(i + 1));
  return Tensor::from(from_doubles(DType::f32, Shape(shape), values), device);
}

/// A norm of x + branch, and the gradients of all that it reads.
std::vector<Tensor> norm_and_gradients(Device device, const Ints& shape) {
  const Ints column{shape.back()};
  Tensor x = wave(shape, 0.7, device), branch = wave(shape, 0.3, device), weight = wave(column, 1.1, device),
         bias = wave(column, 0.9, device);
  for (Tensor* one : {&x, &branch, &weight, &bias}) one->requires_grad();
  const Tensor y = layer_norm(x + branch, 1, weight, bias);
  const Tensor loss = sum(y * wave(shape, 0.2, device));
  loss.backward();
  return {loss, y, x.grad(), branch.grad(), weight.grad(), bias.grad()};
}

int64_t chains(const Plan& plan) { return std::ranges::count(plan.steps, true, &PlanStep::chained); }

// Every value is written before it is read.
void expect_written_first(const Plan& plan) {
  std::set<int> written(plan.inputs.begin(), plan.inputs.end());
  for (const PlanStep& step : plan.steps) {
    for (const int v : step.reads) EXPECT_TRUE(written.contains(v)) << step.name_and_parts();
    written.insert(step.writes.begin(), step.writes.end());
  }
}

TEST(Chain, ANormAndItsGradientsAreFewLaunches) {
  const auto plan_of = [] { return plan_for(norm_and_gradients(gpu_of_plans(), {64, 32, 96})); };
  const auto together = plan_of();
  const ScopedDisable off("chain");
  const auto apart = plan_of();
  EXPECT_EQ(chains(*apart), 0);
  EXPECT_GE(chains(*together), 1);
  EXPECT_LE(together->steps.size() + 3, apart->steps.size()) << explain(*together) << explain(*apart);
  EXPECT_LT(together->flops(), apart->flops() * 3 / 2);
  EXPECT_LT(together->bytes(), apart->bytes() * 4 / 5);
  EXPECT_LE(together->arena_bytes(), apart->arena_bytes() * 5 / 4);
  EXPECT_NE(explain(*together).find("chain of "), std::string::npos) << explain(*together);
  expect_written_first(*together);
  for (const PlanStep& step : together->steps) {
    if (!step.chained) continue;
    const auto chain = row_chain(step.loops);
    ASSERT_TRUE(chain);
    EXPECT_EQ(chain->row(), 96);
    EXPECT_EQ(chain->rows(), 64 * 32);
    for (const int v : step.reads) EXPECT_EQ(std::ranges::count(step.writes, v), 0);
  }
}

TEST(Chain, OnTheHost) {
  const auto plan = plan_for(norm_and_gradients({}, {64, 32, 96}));
  EXPECT_GE(chains(*plan), 1) << explain(*plan);
  expect_written_first(*plan);
  const auto bits = [] {
    std::vector<std::vector<float>> all;
    for (const Tensor& one : norm_and_gradients({}, {64, 32, 96})) all.push_back(one.to_vector<float>());
    return all;
  };
  const auto together = bits();
  const ScopedDisable off("chain");
  EXPECT_EQ(bits(), together);
}

TEST(Chain, NotWhileLookingForNaN) {
  const auto plan_of = [] { return plan_for(norm_and_gradients(gpu_of_plans(), {64, 96})); };
  EXPECT_GE(chains(*plan_of()), 1);
  compile_options().check_nan = true;
  const auto plan = plan_of();
  compile_options().check_nan = false;
  EXPECT_EQ(chains(*plan), 0);
}

// The loop that updates a norm's scale, and loops that read it, are in one chain.
TEST(Chain, ParametersAreStillUpdatedInPlace) {
  for (const Device device : {Device{}, gpu_of_plans()})
    for (const int64_t width : {512, 2048}) {
      SCOPED_TRACE(to_string(device) + " " + std::to_string(width));
      const auto updates = [&] {
        Tensor x = wave({2048, width}, 0.7, device), weight = wave({width}, 1.1, device),
               bias = wave({width}, 0.9, device);
        for (Tensor* one : {&x, &weight, &bias}) one->requires_grad();
        sum(layer_norm(x, 1, weight, bias) * wave({2048, width}, 0.2, device)).backward();
        return std::vector<Tensor>{x.grad(), weight.detach() - weight.grad() * 0.1,
                                   bias.detach() - bias.grad() * 0.1};
      };
      const auto plan = plan_for(updates());
      EXPECT_GE(chains(*plan), 1) << explain(*plan);
      const auto in_place = [&](int v) { return plan->values[static_cast<size_t>(v)].in_place_of >= 0; };
      EXPECT_TRUE(in_place(plan->outputs[1])) << explain(*plan);
      EXPECT_TRUE(in_place(plan->outputs[2])) << explain(*plan);
    }
}

// All items of a group compute the end of a row's sum, and one stores it. An axis of extent 1 behind the row
// makes no sum over rows of it.
TEST(Chain, TheEndOfARowOverwritesNothingThatItReads) {
  for (const Ints& shape : {Ints{2048, 512}, Ints{2048, 512, 1}, Ints{2048, 4, 128, 1}}) {
    SCOPED_TRACE(to_string(Shape(shape)));
    Ints one(shape.size(), 1), axes;
    one[0] = shape[0];
    for (size_t axis = 1; axis < shape.size() && shape[axis] > 1; ++axis)
      axes.push_back(static_cast<int64_t>(axis));
    const auto states = [&](Device device) {
      const Tensor state = wave(one, 0.3, device), x = wave(shape, 0.7, device);
      const Tensor next = state * 0.9 + max(x, axes, true) * 0.1;
      return std::vector<Tensor>{next, x - broadcast_to(next, Shape(shape))};
    };
    const auto plan = plan_for(states(gpu_of_plans()));
    ASSERT_EQ(chains(*plan), 1) << explain(*plan);
    EXPECT_LT(plan->values[static_cast<size_t>(plan->outputs[0])].in_place_of, 0) << explain(*plan);
  }
}

TEST(Chain, LoopsOverDifferentRowsStayApart) {
  const Tensor x = wave({48, 96}, 0.7, gpu_of_plans());
  const Tensor rows = sum(x, {1}), columns = sum(x, {0});
  // The second loop needs the sum of every row.
  const auto plan = plan_for({rows, x * broadcast_to(sum(rows * rows), {48, 96}), columns * columns});
  EXPECT_GE(plan->steps.size(), 3U) << explain(*plan);
  for (const PlanStep& step : plan->steps) EXPECT_LE(step.loops.size(), 2U) << explain(*plan);
  expect_written_first(*plan);
}

TEST(Chain, ResultsStayTheSame) {
  for (const Ints& shape : {Ints{3, 5, 33}, Ints{40, 64}, Ints{2, 70, 16}}) {
    const auto values = [&](Device device) {
      std::vector<std::vector<float>> all;
      const auto results = norm_and_gradients(device, shape);
      eval(results);
      for (const Tensor& one : results) all.push_back(one.to_vector<float>());
      return all;
    };
    const auto want = values({});
    for (const DeviceInfo& info : list_devices()) {
      SCOPED_TRACE(to_string(info.device));
      const auto got = values(info.device);
      const auto again = values(info.device);
      EXPECT_EQ(got, again);
      for (size_t i = 0; i < want.size(); ++i)
        for (size_t k = 0; k < want[i].size(); ++k)
          ASSERT_NEAR(got[i][k], want[i][k], 1e-4 * std::max(1.0F, std::abs(want[i][k]))) << i << " " << k;
    }
  }
}

}  // namespace
}  // namespace athanor
