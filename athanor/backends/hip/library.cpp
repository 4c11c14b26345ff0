#include "athanor/backends/hip/library.h"

#include <array>

namespace athanor::hip {

const os::Library& hip_library() {
#ifdef _WIN32
  static const os::Library library({"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"});
#else
  static const os::Library library({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                    "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"});
#endif
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
