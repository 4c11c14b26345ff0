// Inputs without elements: plans can be made with them, but they are never computed with.
#include <gtest/gtest.h>

#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

TEST(Placeholder, IsPlannedLikeATensor) {
  const auto plan_of = [](const Tensor& x) { return plan_for({sum(relu(x * 2))}); };
  const auto plan = plan_of(Tensor::placeholder({DType::f32, {64, 32}, {}}));
  const auto real = plan_of(zeros({64, 32}).eval());
  ASSERT_EQ(plan->steps.size(), real->steps.size());
  EXPECT_EQ(plan->planned_memory_bytes(), real->planned_memory_bytes());
  const auto huge = plan_of(Tensor::placeholder({DType::f32, {1 << 20, 1 << 20}, {}}));
  EXPECT_GE(huge->planned_memory_bytes(), int64_t{1} << 42) << "4 TiB that nobody has";
}

TEST(Placeholder, IsNotComputedWith) {
  const Tensor x = Tensor::placeholder({DType::f32, {4}, {}});
  const Tensor y = x + 1;
  expect_error(ErrorCode::value, {"placeholder", "no elements"}, [&] { (void)y.to_host(); });
  expect_error(ErrorCode::value, {"placeholder has no elements"}, [&] { (void)x.to_host(); });
}

}  // namespace
}  // namespace athanor
