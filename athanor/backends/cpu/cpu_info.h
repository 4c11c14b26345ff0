// What is known of the processor.
#pragma once
#include "athanor/device/device.h"

namespace athanor::cpu {

/// Name, memory and properties, each with where it was read.
DeviceInfo describe_cpu(Device device);

}  // namespace athanor::cpu
