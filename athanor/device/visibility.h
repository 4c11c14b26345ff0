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
  unknown,  // the value refers to an order or to names that are not known here
};

/// What a variable does to the GPUs of its vendor.
struct Visibility {
  std::string setting;                      // "HIP_VISIBLE_DEVICES=0"
  std::string variable;                     // "HIP_VISIBLE_DEVICES"
  std::vector<std::string> backends;        // the backends that obey it: "hip", "opencl"
  std::vector<const FoundDevice*> devices;  // the vendor's, in the order in which the variable counts them
  std::vector<Visible> visible;             // for each device

  /// Whether a backend sees the device. Visible::yes if the variable does not apply to them.
  Visible of(const FoundDevice& device, const std::string& backend) const;
};

/// The effect of each variable that is set and applies to a GPU of this machine.
std::vector<Visibility> visibilities(const std::vector<FoundDevice>& devices, const Machine& machine);

/// The setting that hides the device from a backend's runtime, or may hide it: "HIP_VISIBLE_DEVICES=0"; "" if
/// there is none.
std::string hidden_by(const std::vector<Visibility>& all, const FoundDevice& device,
                      const std::string& backend);

}  // namespace athanor
