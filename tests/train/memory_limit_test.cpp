// Whole runs keep to the memory limit of their device, even while kernels are timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "athanor/base/error.h"
#include "athanor/device/device.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/matches.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

class MemoryLimitTest : public testing::TrainerTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    testing::TrainerTest::SetUp();
    const auto devices = list_devices();
    if (std::ranges::none_of(devices, [](const auto& info) { return to_string(info.device) == GetParam(); }))
      GTEST_SKIP() << "there is no " << GetParam();
    config_.device = GetParam();
  }

  int64_t peak(const std::string& run) {
    clear_plan_cache();
    TuningCache::instance().start_anew();
    EXPECT_EQ(train(run), RunEnd::finished);
    return summary(run)["peak_memory_bytes"];
  }
};

TEST_P(MemoryLimitTest, ARunStaysWithinItsLimitWhileItTunes) {
  config_.max_steps = 2;
  config_.tune = "off";
  config_.memory_limit = peak("least");
  config_.tune = "full";
  EXPECT_LE(peak("tuned"), config_.memory_limit);
}

// The limit holds for the whole run: with waiting parts of the batch, tests and checkpoints. The limit that
// the error advises must include these, or it would be refused too.
TEST_P(MemoryLimitTest, TheLeastThatIsAdvisedIsEnough) {
  config_.max_steps = 3;
  config_.deterministic = true;
  config_.batch_size = 32;
  config_.accumulate = 4;
  config_.memory_limit = 1;
  try {
    train("refused");
    FAIL() << "nothing fits into a byte";
  } catch (const Error& error) {
    const std::string& hint = error.hint();
    const testing::Match least = testing::first_match(hint, "at least ([0-9]+)KiB");
    ASSERT_FALSE(least.empty()) << error.what();
    config_.memory_limit = std::stoll(least[1]) << 10;
  }
  EXPECT_LE(peak("least"), config_.memory_limit);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryLimitTest, ::testing::Values("cpu", "opencl:0"));

}  // namespace
}  // namespace athanor
