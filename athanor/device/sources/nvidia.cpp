// NVIDIA's kernel module: /proc/driver/nvidia.
#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/device/nvidia_version.h"
#include "athanor/device/sighting.h"

namespace athanor {

// Three digits and a dot first, unlike a kernel's version or a date.
bool looks_like_nvidia_driver(std::string_view word) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return word.size() >= 6 && word.size() <= 16 && digit(word[0]) && digit(word[1]) && digit(word[2]) &&
         word[3] == '.' &&
         std::all_of(word.begin(), word.end(), [&](char c) { return digit(c) || c == '.'; });
}

std::string nvidia_module_version(std::string_view text) {
  std::string line(text.substr(0, text.find('\n')));
  std::replace(line.begin(), line.end(), '\t', ' ');
  for (const std::string& word : split(line, ' '))
    if (looks_like_nvidia_driver(word)) return word;
  return {};
}

std::vector<Sighting> sightings_of_nvidia(const Machine& machine) {
  std::vector<Sighting> all;
  const std::string driver = nvidia_module_version(machine.read("/proc/driver/nvidia/version").value_or(""));
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
      // A module without its user-space part reports "Unknown" or question marks.
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
