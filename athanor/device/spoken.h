// The names of sources of properties in text.
#pragma once
#include <string>

namespace athanor {

/// "OpenCL" of "opencl", "KFD" of "kfd"; another source has its name. Backends that this build lacks are
/// among them: a recorded machine may have them.
std::string spoken(const std::string& source);

}  // namespace athanor
