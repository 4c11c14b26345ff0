// NVIDIA's driver, by its files.
#pragma once
#include <string>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct NvidiaDriver {
  std::string module_version;   // of the loaded kernel module, "535.161.08"; "" for none
  std::string library_version;  // of libnvidia-ml.so.1, by the file that it leads to
  std::string library;          // that file
};

NvidiaDriver read_nvidia(const Machine& machine);

}  // namespace athanor::doctor
