// The names of property sources, as written in text.
#pragma once
#include <string>

namespace athanor {

/// "OpenCL" for "opencl", "KFD" for "kfd"; unknown sources keep their name. Knows also backends that this
/// build lacks, because a recorded machine may have them.
std::string spoken(const std::string& source);

}  // namespace athanor
