// Which device to use: by name, or the fastest by measurement.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/device.h"

namespace athanor {

struct DeviceChoice {
  Device device;
  std::string
      why;  // "asked for", "the only device here", "the fastest here: 190 GFLOP/s; opencl:0 42 GFLOP/s"
};

/// The device that a name means: what parse_device() knows, or "auto", the one with the most arithmetic of a
/// 512 x 512 product of f32 matrices a second, as measured now or on another day. A CPU that OpenCL lists as
/// well is used through OpenCL only where that is faster by half. A device that fails is left out, with its
/// reason in `why`. Throws Error(device).
DeviceChoice choose_device(const std::string& name);

/// A device with the speed of its product; or why it has none.
struct TimedDevice {
  DeviceInfo info;
  double gflops = 0;
  std::string failure;
};
/// What "auto" means where these are all the devices. Throws Error(device) where all fail.
DeviceChoice fastest_of(const std::vector<TimedDevice>& all);

}  // namespace athanor
