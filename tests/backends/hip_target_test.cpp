// HIP's name of a device is believed only if the version, which HIP reports separately, agrees.
#include <gtest/gtest.h>

#include "athanor/backends/hip/library.h"

namespace athanor::hip {
namespace {

TEST(HipTarget, HasTheVersionOfItsName) {
  EXPECT_TRUE(is_of_version("gfx906", 9, 0));
  EXPECT_TRUE(is_of_version("gfx90a:sramecc+:xnack-", 9, 0));
  EXPECT_TRUE(is_of_version("gfx942", 9, 4));
  EXPECT_TRUE(is_of_version("gfx1030", 10, 3));
  EXPECT_TRUE(is_of_version("gfx1100", 11, 0));
  EXPECT_TRUE(is_of_version("gfx1201", 12, 0));
}

// The name may be another device's, or other bytes, if the runtime's structure has another layout.
TEST(HipTarget, HasNoOther) {
  EXPECT_FALSE(is_of_version("gfx1100", 10, 3));
  EXPECT_FALSE(is_of_version("gfx1100", 1, 1));
  EXPECT_FALSE(is_of_version("gfx906", 90, 6));
  EXPECT_FALSE(is_of_version("gfx", 0, 0));
  EXPECT_FALSE(is_of_version("gfx9", 9, 0));
  EXPECT_FALSE(is_of_version("gfx90a!", 9, 0));
  EXPECT_FALSE(is_of_version("gfx11000", 11, 0));
}

}  // namespace
}  // namespace athanor::hip
