// Variables that hide GPUs from runtimes: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and
// GPU_DEVICE_ORDINAL. Runtimes obey them by themselves; this finds out what they hide.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/detect.h"

namespace athanor {

enum class Visible {
  yes,
  no,
  unknown,  // the value counts in an order, or by names, that are not known here
};

/// What a variable does to the GPUs of its vendor.
struct Visibility {
  std::string setting;                      // "HIP_VISIBLE_DEVICES=0"
  std::string variable;                     // "HIP_VISIBLE_DEVICES"
  std::vector<std::string> backends;        // that obey it: "hip", "opencl"
  std::vector<const FoundDevice*> devices;  // of the vendor, as the variable counts them
  std::vector<Visible> visible;             // of each

  /// Visible::yes for devices that it does not concern.
  Visible of(const FoundDevice& device, const std::string& backend) const;
};

/// Of each variable that is set and concerns a GPU that is here.
std::vector<Visibility> visibilities(const std::vector<FoundDevice>& devices, const Machine& machine);

/// "HIP_VISIBLE_DEVICES=0" if that is why a backend's runtime does not list the device, or may be; else "".
std::string hidden_by(const std::vector<Visibility>& all, const FoundDevice& device,
                      const std::string& backend);

}  // namespace athanor
