// The HIP runtime library, loaded while the program runs.
#pragma once
#include <string>

#include "athanor/base/os/library.h"

namespace athanor::hip {

/// Looks for sonames 7 to 5, also in ROCm's folders.
const os::Library& hip_library();

/// The compiler's name for a device ("gfx1100"); "" if HIP does not report it. No attribute has it, so it is
/// read from the structure of properties, at an offset that differs between generations of HIP. It is
/// accepted if it begins with the version that attributes report.
std::string target_of(const os::Library& hip, int device);
/// Whether the target has that version: "gfx90a" has 9.0, "gfx1030" 10.3. The last digit is a stepping.
bool is_of_version(const std::string& target, int major, int minor);

}  // namespace athanor::hip
