#include "athanor/compile/step_times.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

// One step was timed, also with another kernel; one has much arithmetic; one moves many bytes.
Plan three_steps() {
  Plan plan;
  plan.steps.resize(3);
  plan.steps[0].kernel.name = "tiles";
  plan.steps[0].measured = {{"rows", 5e-3}, {"tiles", 2e-3}};
  for (PlanStep& step : plan.steps) step.flops = 1e6, step.bytes = 1e6;
  plan.steps[1].flops = 4e11;
  plan.steps[2].bytes = 3e10;
  return plan;
}

TEST(StepTimes, ScaleOnlyWhatWasNotTimed) {
  const Plan plan = three_steps();
  const StepTimes times;
  const double arithmetic = times.seconds(plan.steps[1]), bytes = times.seconds(plan.steps[2]);
  EXPECT_EQ(times.seconds(plan.steps[0]), 2e-3);
  EXPECT_GT(arithmetic, 0);
  EXPECT_GT(bytes, 0);
  EXPECT_DOUBLE_EQ(times.seconds(plan), 2e-3 + arithmetic + bytes);
  EXPECT_DOUBLE_EQ(times.seconds(plan, 3), 2e-3 + 3 * (arithmetic + bytes));
}

TEST(StepTimes, ByRatesDoNotDependOnWhatWasTimed) {
  Plan plan = three_steps();
  const StepTimes times;
  const double by_rates = times.seconds_by_rates(plan);
  plan.steps[0].measured.clear();
  EXPECT_DOUBLE_EQ(times.seconds_by_rates(plan), by_rates);
  EXPECT_DOUBLE_EQ(times.seconds(plan), by_rates);
}

}  // namespace
}  // namespace athanor
