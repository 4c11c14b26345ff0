// Devices for tests of GPU kernels: those of OpenCL, or of the backend in $ATHANOR_TEST_BACKEND ("cuda",
// "hip"). If there is none, a test is skipped.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/kernels/gpu/grain.h"

namespace athanor::testing {

inline std::string gpu_backend() {
  const char* const name = std::getenv("ATHANOR_TEST_BACKEND");
  return name == nullptr || *name == 0 ? "opencl" : name;
}

inline std::vector<DeviceInfo> gpu_devices() {
  std::vector<DeviceInfo> found;
  for (const DeviceInfo& info : list_devices())
    if (to_string(info.device).starts_with(gpu_backend() + ":")) found.push_back(info);
  return found;
}

/// The grain of the other kind of device: its kernels must compute the same.
inline const Grain* other_grain(const Grain* grain) {
  return grain->side_by_side == 1 ? &fine_grain : &coarse_grain;
}

#define ATHANOR_NEEDS_GPU()                    \
  if (athanor::testing::gpu_devices().empty()) \
  GTEST_SKIP() << "there is no " << athanor::testing::gpu_backend() << " device here"

}  // namespace athanor::testing
