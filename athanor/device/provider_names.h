// Which backends this build has.
#pragma once
#include <string>
#include <vector>

namespace athanor {

/// "cpu", "opencl", ... of those that are registered.
std::vector<std::string> provider_names();

}  // namespace athanor
