// The backends that this build has.
#pragma once
#include <string>
#include <vector>

namespace athanor {

/// The names of registered backends: "cpu", "opencl", ...
std::vector<std::string> provider_names();
/// The name of each backend's first device for --device, whether it exists or not: "cpu", "cuda:0",
/// "opencl:0".
std::vector<std::string> first_device_names();

}  // namespace athanor
