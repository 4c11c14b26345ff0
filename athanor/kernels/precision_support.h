// Whether a device computes in a precision.
#pragma once
#include <string>

#include "athanor/device/device.h"
#include "athanor/graph/precision.h"

namespace athanor {

/// Why the precision is slow on the device, for people: "cpu has no ..."; "" if it is not. Throws
/// Error(usage) with what to use instead, if the device cannot compute in it.
std::string require_precision(Device device, Precision precision);

}  // namespace athanor
