#include "athanor/backends/hip/library.h"

#include <fmt/format.h>

#include <array>

#include "athanor/device/vendor_libraries.h"

namespace athanor::hip {

const os::Library& hip_library() {
  static const os::Library library(hip_names(Machine()));
  return library;
}

bool is_of_version(const std::string& target, int major, int minor) {
  const std::string digits = target.substr(3, target.find(':') - 3);
  if (digits.size() < 3 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  return digits.starts_with(fmt::format("{}{:x}", major, minor)) &&
         digits.size() == fmt::format("{}", major).size() + 2;
}

namespace {

/// Whether the device's attributes report the same version.
bool agrees(const os::Library& hip, int device, const std::string& target) {
  constexpr int major_version = 23, minor_version = 61;
  const auto get = reinterpret_cast<int (*)(int*, int, int)>(hip.find("hipDeviceGetAttribute"));
  int major = 0, minor = 0;
  return get != nullptr && get(&major, major_version, device) == 0 &&
         get(&minor, minor_version, device) == 0 && is_of_version(target, major, minor);
}

}  // namespace

std::string target_of(const os::Library& hip, int device) {
  std::array<char, 8192> properties{};  // more than any of the structures
  struct Generation {
    const char* function;
    size_t place;  // the offset of gcnArchName
  };
  for (const Generation& generation :
       {Generation{"hipGetDevicePropertiesR0600", 1160}, Generation{"hipGetDeviceProperties", 396}}) {
    const auto get = reinterpret_cast<int (*)(void*, int)>(hip.find(generation.function));
    if (get == nullptr) continue;
    if (get(properties.data(), device) != 0) return {};
    const std::string text = std::string(properties.data() + generation.place).substr(0, 64);
    return text.starts_with("gfx") && agrees(hip, device, text) ? text : std::string();
  }
  return {};
}

}  // namespace athanor::hip
