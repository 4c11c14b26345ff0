// The HIP runtime library, loaded while the program runs.
#pragma once
#include <string>

#include "athanor/base/os/library.h"

namespace athanor::hip {

/// Sonames 7 to 5, and where ROCm puts it.
const os::Library& hip_library();

/// What the compiler calls a device ("gfx1100"); "" where HIP does not say. No attribute tells it, so it is
/// read from the structure of properties, where it stands at a place of its own in each generation of HIP,
/// and believed if it begins with the version that attributes tell.
std::string target_of(const os::Library& hip, int device);
/// Whether the target has that version: "gfx90a" has 9.0, "gfx1030" 10.3. The last digit is a stepping.
bool is_of_version(const std::string& target, int major, int minor);

}  // namespace athanor::hip
