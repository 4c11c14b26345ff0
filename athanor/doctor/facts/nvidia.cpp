#include "athanor/doctor/facts/nvidia.h"

#include "athanor/device/nvidia_version.h"

namespace athanor::doctor {
NvidiaDriver read_nvidia(const Machine& machine) {
  NvidiaDriver driver;
  driver.module_version = nvidia_module_version(machine.read("/proc/driver/nvidia/version").value_or(""));
  driver.version = driver.module_version;
  driver.source = "/proc/driver/nvidia/version";
  for (const std::string& path : machine.libraries("libnvidia-ml.so*")) {
    const std::string file = machine.resolve(path).value_or(path);
    const size_t at = file.rfind(".so.");
    if (at == std::string::npos || !looks_like_nvidia_driver(std::string_view(file).substr(at + 4))) continue;
    driver.library_version = file.substr(at + 4);
    driver.library = file;
    break;
  }
  return driver;
}

}  // namespace athanor::doctor
