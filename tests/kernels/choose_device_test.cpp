#include "athanor/kernels/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

TimedDevice timed(uint8_t provider, const char* kind, double gflops, const char* failure = "") {
  TimedDevice one{{}, gflops, failure};
  one.info.device = {provider, 0};
  one.info.kind = kind;
  return one;
}

TEST(ChooseDevice, TakesTheFastest) {
  EXPECT_EQ(fastest_of({timed(0, "cpu", 200), timed(1, "gpu", 201)}).device, (Device{1, 0}));
  EXPECT_EQ(fastest_of({timed(0, "cpu", 200), timed(1, "gpu", 90)}).device, Device{});
}

TEST(ChooseDevice, PrefersACpusOwnKernelsWhereOpenClIsLittleFaster) {
  const DeviceChoice near = fastest_of({timed(0, "cpu", 200), timed(1, "cpu", 240)});
  EXPECT_EQ(near.device, Device{});
  EXPECT_THAT(near.why, HasSubstr("240 GFLOP/s, the same processor"));
  EXPECT_EQ(fastest_of({timed(0, "cpu", 20), timed(1, "cpu", 240)}).device, (Device{1, 0}));
}

TEST(ChooseDevice, LeavesOutWhatFails) {
  const DeviceChoice choice = fastest_of({timed(0, "cpu", 20), timed(1, "gpu", 0, "the driver said no")});
  EXPECT_EQ(choice.device, Device{});
  EXPECT_THAT(choice.why, HasSubstr("the driver said no"));
  EXPECT_THROW(fastest_of({timed(1, "gpu", 0, "the driver said no")}), Error);
}

}  // namespace
}  // namespace athanor
