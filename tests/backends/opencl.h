// OpenCL devices for tests; without one a test is skipped, by name.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/device/device.h"

namespace athanor::testing {

inline std::vector<DeviceInfo> opencl_devices() {
  std::vector<DeviceInfo> found;
  for (const DeviceInfo& info : list_devices())
    if (to_string(info.device).starts_with("opencl")) found.push_back(info);
  return found;
}

#define ATHANOR_NEEDS_OPENCL() \
  if (athanor::testing::opencl_devices().empty()) GTEST_SKIP() << "there is no OpenCL device here"

}  // namespace athanor::testing
