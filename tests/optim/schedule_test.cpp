#include "athanor/optim/schedule.h"

#include <gtest/gtest.h>

#include "../nn/reference.h"
#include "../support/expect_error.h"

namespace athanor::optim {
namespace {

using testing::expect_error;

void check(const std::string& name, const Schedule& schedule) {
  static const auto all = testing::read_reference("schedules");
  const auto expected = to_doubles(all.at(name));
  for (size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(schedule(static_cast<int64_t>(step)), expected[step], 1e-12) << name << " at " << step;
}

TEST(Schedule, AsPyTorch) {
  check("step", step_decay(0.5, 7, 0.3));
  check("multi_step", multi_step(0.5, {30, 5, 12}, 0.2));
  check("cosine", cosine(0.5, 40, 0.01));
  check("one_cycle", one_cycle(0.5, 40));
  check("one_cycle_linear",
        one_cycle(0.5, 40, {.warm_share = 0.25, .start_divisor = 10, .final_divisor = 100, .linear = true}));
  check("warm_cosine", warm_up(8, cosine(0.5, 32), 0.1));
}

TEST(Schedule, EndsStayAtTheEnd) {
  EXPECT_EQ(constant(0.3)(1000000), 0.3);
  EXPECT_NEAR(cosine(0.5, 40, 0.01)(1000), 0.01, 1e-15);
  EXPECT_EQ(one_cycle(0.5, 40)(1000), one_cycle(0.5, 40)(39));
  EXPECT_EQ(one_cycle(0.5, 1)(0), one_cycle(0.5, 1)(5));
  EXPECT_EQ(warm_up(0, constant(0.3))(0), 0.3);
}

TEST(Schedule, ByName) {
  const ScheduleOptions options{.lr = 0.4, .total_steps = 90, .warm_up_steps = 30};
  EXPECT_NEAR(make_schedule("constant", options)(15), 0.4 * (0.01 + 0.99 / 2), 1e-15);
  EXPECT_EQ(make_schedule("constant", options)(30), 0.4);
  EXPECT_NEAR(make_schedule("cosine", options)(60), 0.2, 1e-15);
  EXPECT_NEAR(make_schedule("step", options)(50), 0.04, 1e-15);
  EXPECT_NEAR(make_schedule("one-cycle", options)(26), 0.4, 1e-15);  // it has its own warm-up
  expect_error(ErrorCode::name, {"'cosin'", "cosine"}, [&] { make_schedule("cosin", options); });
}

TEST(Schedule, BadInput) {
  expect_error(ErrorCode::value, {"0 steps"}, [] { cosine(0.1, 0); });
  expect_error(ErrorCode::value, {"rate of -1"}, [] { constant(-1); });
  expect_error(ErrorCode::value, {"warm-up from 2"}, [] { warm_up(5, constant(0.1), 2); });
  expect_error(ErrorCode::value, {"warms up for 1.5"}, [] { one_cycle(0.1, 10, {.warm_share = 1.5}); });
}

}  // namespace
}  // namespace athanor::optim
