// NVIDIA's kernel module: /proc/driver/nvidia.
#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 ..." and the open module's
// "... Open Kernel Module for x86_64  570.86.15  ...": the first word that is a version.
std::string version_of(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  std::replace(line.begin(), line.end(), '\t', ' ');
  for (const std::string& word : split(line, ' '))
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return {};
}

}  // namespace

std::vector<Sighting> sightings_of_nvidia(const Machine& machine) {
  std::vector<Sighting> all;
  const std::string driver = version_of(machine.read("/proc/driver/nvidia/version").value_or(""));
  for (const std::string& folder : machine.glob("/proc/driver/nvidia/gpus/*")) {
    Sighting seen;
    seen.source = "nvidia";
    seen.kind = "gpu";
    std::string address = folder.substr(folder.rfind('/') + 1);
    std::transform(address.begin(), address.end(), address.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    seen.pci = address;
    for (const std::string& line : split(machine.read(folder + "/information").value_or(""), '\n')) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      const std::string key = trim(line.substr(0, colon)), value = trim(line.substr(colon + 1));
      // A module without its user-space part says "Unknown" or question marks.
      if (value.empty() || value == "Unknown" || value.find("??") != std::string::npos) continue;
      if (key == "Model") seen.name = value;
      if (key == "GPU UUID") seen.uuid = value;
      if (key == "Video BIOS") seen.add("vbios", Value(value));
      if (key == "GPU Firmware") seen.add("firmware", Value(value));
    }
    seen.add("vendor", Value("NVIDIA"));
    if (!driver.empty()) seen.add("driver_version", Value(driver));
    all.push_back(std::move(seen));
  }
  return all;
}

}  // namespace athanor
