// Whether a device computes in a precision.
#pragma once
#include <string>

#include "athanor/device/device.h"
#include "athanor/graph/precision.h"

namespace athanor {

/// Why the precision is not faster than f32 on the device, for people: "on cpu, no ..."; "" if it is. Every
/// command that uses a precision says it. Throws Error(usage) with what to use instead, if the device cannot
/// compute in it.
[[nodiscard]] std::string require_precision(Device device, Precision precision);

}  // namespace athanor
