// The HIP runtime library, loaded while the program runs.
#pragma once
#include <string>

#include "athanor/base/os/library.h"

namespace athanor::hip {

/// Sonames 7 to 5, and where ROCm puts it.
const os::Library& hip_library();

/// What the compiler calls a device ("gfx1100"); "" where HIP does not say. No attribute tells it, so it is
/// read from the structure of properties, where it stands at a place of its own in each generation of HIP.
std::string target_of(const os::Library& hip, int device);

}  // namespace athanor::hip
