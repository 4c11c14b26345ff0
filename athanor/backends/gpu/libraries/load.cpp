#include "athanor/backends/gpu/libraries/load.h"

#include <fmt/format.h>

#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/device/kernel_libraries.h"

namespace athanor::gpu {

os::Library load_kernel_library(const std::string& name, int release) {
  const Machine machine;
  os::Library library(kernel_library_names(machine, name, release));
  if (!library) {
    const Missing missing = missing_kernel_library(machine, name, release);
    throw Error(ErrorCode::device,
                missing.what.empty() ? "it cannot be loaded: " + library.error() : "it is not installed", {},
                missing.fix);
  }
  return library;
}

void require_functions(const Finder& finder, const os::Library& library) {
  if (!finder.lacking().empty())
    throw Error(ErrorCode::device, fmt::format("{} has no {}", library.name(), finder.lacking()));
}

std::string architecture_of(const Facts& device) {
  const auto found = device.info.properties.find("architecture");
  return found == device.info.properties.end() ? "" : found->second.value;
}

void require_kernels_for(const Facts& device, const os::Library& library, const std::string& folder,
                         const char* variable) {
  const Machine machine;
  const std::string chip = architecture_of(device).substr(0, architecture_of(device).find(':'));
  const std::string file = library.file();
  std::vector<std::string> folders;
  if (const auto given = machine.environment(variable)) folders.push_back(*given);
  if (const size_t slash = file.rfind('/'); slash != std::string::npos)
    folders.push_back(file.substr(0, slash + 1) + folder);
  for (const std::string& one : folders)
    for (const char* pattern : {"{}/*{}.*", "{}/*{}-*", "{}/{}"})
      if (!machine.glob(fmt::format(fmt::runtime(pattern), one, chip)).empty()) return;
  throw Error(ErrorCode::device, fmt::format("it has no kernels for {}", chip));
}

std::string version_text(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

int cuda_architecture(const Facts& device) {
  const std::string name = architecture_of(device);
  return name.starts_with("sm_") ? std::atoi(name.c_str() + 3) : 0;
}

}  // namespace athanor::gpu
