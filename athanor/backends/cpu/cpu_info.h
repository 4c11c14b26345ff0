// What is known about the processor.
#pragma once
#include "athanor/device/device.h"

namespace athanor::cpu {

/// Name, memory and properties, each with its source.
DeviceInfo describe_cpu(Device device);

}  // namespace athanor::cpu
