// NVIDIA's driver, as its files describe it.
#pragma once
#include <string>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct NvidiaDriver {
  std::string module_version;   // that of the loaded kernel module, "535.161.08"; "" for none
  std::string library_version;  // that of libnvidia-ml.so.1, by the file that it leads to
  std::string library;          // that file
  /// The version of the running driver: the module's; in WSL that of Windows, by NVML. "" for none.
  std::string version, source;
};

NvidiaDriver read_nvidia(const Machine& machine);

}  // namespace athanor::doctor
