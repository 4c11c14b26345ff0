// Which backends this build has.
#pragma once
#include <string>
#include <vector>

namespace athanor {

/// The names of registered backends: "cpu", "opencl", ...
std::vector<std::string> provider_names();

}  // namespace athanor
