// GPUs that no backend lists.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/device/machine.h"

namespace athanor {

/// "NVIDIA GeForce RTX 4090 is not used: no OpenCL driver is installed (none in /etc/OpenCL/vendors); see
/// athanor doctor" for the GPUs of the machine that are not among those that backends list; "" for none.
/// Drivers' libraries are asked only where the machine's files show more GPUs than `listed` has.
std::string unused_gpus(const Machine& machine, const std::vector<DeviceInfo>& listed);

}  // namespace athanor
