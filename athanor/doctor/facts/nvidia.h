// NVIDIA's driver, by its files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct NvidiaDriver {
  std::string module_version;   // of the loaded kernel module, "535.161.08"; "" for none
  std::string library_version;  // of libnvidia-ml.so.1, by the file that it leads to
  std::string library;          // that file
};

NvidiaDriver read_nvidia(const Machine& machine);

/// The version in /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08
/// ...".
std::string nvidia_module_version(std::string_view text);

}  // namespace athanor::doctor
