#include "athanor/backends/hip/library.h"

#include <array>

#include "athanor/device/vendor_libraries.h"

namespace athanor::hip {

const os::Library& hip_library() {
  static const os::Library library(hip_names(Machine()));
  return library;
}

std::string target_of(const os::Library& hip, int device) {
  std::array<char, 8192> properties{};  // more than any of the structures
  struct Generation {
    const char* function;
    size_t place;  // of gcnArchName
  };
  for (const Generation& generation :
       {Generation{"hipGetDevicePropertiesR0600", 1160}, Generation{"hipGetDeviceProperties", 396}}) {
    const auto get = reinterpret_cast<int (*)(void*, int)>(hip.find(generation.function));
    if (get == nullptr) continue;
    if (get(properties.data(), device) != 0) return {};
    const std::string text = properties.data() + generation.place;
    return text.starts_with("gfx") ? text.substr(0, 64) : std::string();
  }
  return {};
}

}  // namespace athanor::hip
