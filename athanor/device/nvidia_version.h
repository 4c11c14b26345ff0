// The version of NVIDIA's driver, as written in its files.
#pragma once
#include <string>
#include <string_view>

namespace athanor {

/// The version of the loaded module, from the first line of /proc/driver/nvidia/version: "NVRM version:
/// NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 ..." or, for the open module, "... NVIDIA UNIX
/// Open Kernel Module for x86_64  570.86.15  ...". "" if there is none.
std::string nvidia_module_version(std::string_view text);

/// Whether a word looks like a driver's version: "535.161.08". Such a word may also end a library's name.
bool looks_like_nvidia_driver(std::string_view word);

}  // namespace athanor
