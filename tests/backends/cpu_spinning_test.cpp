#include "athanor/backends/cpu/spinning.h"

#include <gtest/gtest.h>

namespace athanor::cpu {
namespace {

TEST(BusySense, SeesABusyMachineAtOnceAndAQuietOneAfterAWhile) {
  BusySense sense;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(sense(0.02));
  EXPECT_TRUE(sense(0.5));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(sense(0.02)) << i;
  EXPECT_FALSE(sense(0.02));
}

TEST(BusySense, IsNotMovedByWhatLiesBetween) {
  BusySense sense;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(sense(0.2));
  EXPECT_TRUE(sense(0.5));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(sense(0.2));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(sense(i % 5 == 4 ? 0.2 : 0.01)) << "quiet for less than a second";
}

}  // namespace
}  // namespace athanor::cpu
