// Whole runs take no more memory of their device than they may, timing of kernels included.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "athanor/device/device.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/runtime/evaluate.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

class MemoryLimitTest : public testing::TrainerTest, public ::testing::WithParamInterface<const char*> {
 protected:
  int64_t peak(const std::string& run) {
    clear_plan_cache();
    TuningCache::instance().start_anew();
    EXPECT_EQ(train(run), RunEnd::finished);
    return summary(run)["peak_memory_bytes"];
  }
};

TEST_P(MemoryLimitTest, ARunStaysWithinItsLimitWhileItTunes) {
  const auto devices = list_devices();
  if (std::ranges::none_of(devices, [](const auto& info) { return to_string(info.device) == GetParam(); }))
    GTEST_SKIP() << "there is no " << GetParam();
  config_.device = GetParam();
  config_.max_steps = 2;
  config_.tune = "off";
  config_.memory_limit = peak("least");
  config_.tune = "full";
  EXPECT_LE(peak("tuned"), config_.memory_limit);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryLimitTest, ::testing::Values("cpu", "opencl:0"));

}  // namespace
}  // namespace athanor
