// Whether a device computes in a precision.
#pragma once
#include <string>

#include "athanor/device/device.h"
#include "athanor/graph/precision.h"

namespace athanor {

/// What the precision costs on the device, for people: "cpu has no ..."; "" where it is at home. Throws
/// Error(usage) that says what to use instead, where the device cannot compute in it.
std::string require_precision(Device device, Precision precision);

}  // namespace athanor
