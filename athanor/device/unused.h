// GPUs that no backend lists.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/device/machine.h"

namespace athanor {

/// "NVIDIA GeForce RTX 4090 is not used: no OpenCL driver is installed (none in /etc/OpenCL/vendors); see
/// athanor doctor" for the machine's GPUs that no backend can use; "" if there are none. `listed`: the
/// devices that backends list. Drivers' libraries are asked only if the machine's files show more GPUs than
/// that.
std::string unused_gpus(const Machine& machine, const std::vector<DeviceInfo>& listed);

}  // namespace athanor
