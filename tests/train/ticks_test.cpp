#include "athanor/train/ticks.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

using Values = std::vector<double>;

TEST(Ticks, AreRoundNumbers) {
  EXPECT_EQ(nice_ticks(0, 1, 5), (Values{0, 0.2, 0.4, 3 * 0.2, 0.8, 1}));
  EXPECT_EQ(nice_ticks(0.3, 2.4, 4), (Values{1, 2}));
  EXPECT_EQ(nice_ticks(-1, 1, 2), (Values{-1, 0, 1}));
  EXPECT_EQ(nice_ticks(0, 1872, 7), (Values{0, 500, 1000, 1500}));
  EXPECT_EQ(nice_ticks(0, 3e-7, 3), (Values{0, 1e-7, 2e-7, 3e-7}));
}

TEST(Ticks, OfNothingAreNone) {
  EXPECT_TRUE(nice_ticks(1, 1, 5).empty());
  EXPECT_TRUE(nice_ticks(2, 1, 5).empty());
}

}  // namespace
}  // namespace athanor
