// The device of a run.
#pragma once
#include <string>

#include "athanor/device/device.h"

namespace athanor {

struct RunDevice {
  Device device;
  std::string why;  // "auto: the only device"
};

/// The device of `--device`, examined. `before`: the run's device until now ("" for a new run). "auto" stays
/// on it if it is still there, because numbers differ between devices. Throws Error(usage), and Error(device)
/// for one that computes wrongly.
RunDevice choose_run_device(const std::string& asked, const std::string& before);

}  // namespace athanor
