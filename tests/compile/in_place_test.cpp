// Updates in place of small values whose old values later steps still need.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/compile/plan.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

/// Like batch norm's weight: the loop that sums its gradient updates it, and a later one needs the old value.
std::vector<float> updated(Device device, bool& in_place) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, device);
  Tensor w = Tensor::from<float>({1, 2, 3, 4}, {4}, device), y;
  for (int step = 0; step < 3; ++step) {
    const void* const before = w.node()->value->address();
    const Tensor sums = sum(x * w, {0});
    y = x * w * max(sums);
    w = w - 0.01 * sums;
    eval({w, y});
    in_place = w.node()->value->address() == before;
  }
  std::vector<float> all = w.to_vector<float>();
  for (const float number : y.to_vector<float>()) all.push_back(number);
  return all;
}

TEST(UpdatesInPlace, OfWhatIsNeededLongerComeLater) {
  ATHANOR_NEEDS_GPU();
  const ScopedDisable untuned("tune");
  bool in_place = false;
  const auto here = updated(testing::gpu_devices().front().device, in_place);
  EXPECT_TRUE(in_place) << explain(*last_plan());
  EXPECT_EQ(std::ranges::count(last_plan()->steps.back().ops, "copy"), 1) << explain(*last_plan());
  const auto there = updated({}, in_place);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-4F * std::abs(there[i])) << i;
}

}  // namespace
}  // namespace athanor
