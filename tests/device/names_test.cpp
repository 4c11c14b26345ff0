// Names of backends, which other code takes from the registered providers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "athanor/device/device.h"
#include "athanor/device/provider_names.h"
#include "athanor/device/spoken.h"

namespace athanor {
namespace {

TEST(Names, FirstDevicesAreThoseOfEveryBackendThatCanBeListed) {
  const auto first = first_device_names();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first.front(), to_string(Device{}));
  for (const std::string& name : provider_names()) {
    if (name == first.front()) continue;
    const bool listed = name != "offline";  // it is not listed, but can be named
    EXPECT_EQ(std::ranges::count(first, name + ":0"), listed ? 1 : 0) << name;
  }
}

TEST(Names, SourcesAreCalledAsTheirMakersWriteThem) {
  EXPECT_EQ(spoken("opencl"), "OpenCL");
  EXPECT_EQ(spoken("hip"), "HIP");
  EXPECT_EQ(spoken("data sheet"), "data sheet");
}

}  // namespace
}  // namespace athanor
