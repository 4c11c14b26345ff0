#include "athanor/device/pci_names.h"

#include <fmt/format.h>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

constexpr size_t most_bytes = size_t{8} << 20;

// The line at `start`, without its end.
std::string_view line_at(std::string_view text, size_t start) {
  return text.substr(start, std::min(text.find('\n', start), text.size()) - start);
}

}  // namespace

std::string amdgpu_name(const Machine& machine, uint32_t device, int64_t revision) {
  if (revision < 0) return {};
  const std::string wanted = fmt::format("{:04X},\t{:02X},\t", device, revision);
  for (const char* file : {"/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids"}) {
    const std::string text = machine.read(file, most_bytes).value_or("");
    if (const size_t at = text.find("\n" + wanted); at != std::string::npos)
      return trim(line_at(text, at + 1 + wanted.size()));
  }
  return {};
}

std::string pci_name(const Machine& machine, uint32_t vendor, uint32_t device) {
  for (const char* file : {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"}) {
    const std::string text = "\n" + machine.read(file, most_bytes).value_or("");
    const size_t start = text.find(fmt::format("\n{:04x}  ", vendor));
    if (start == std::string::npos) continue;
    for (size_t at = start + 1; at < text.size(); at += line_at(text, at).size() + 1) {
      const std::string_view line = line_at(text, at);
      if (at > start + 1 && !line.starts_with('\t') && !line.starts_with('#')) break;  // another vendor
      if (!line.starts_with(fmt::format("\t{:04x}  ", device))) continue;
      // "AD102 [GeForce RTX 4090]": people know the name in the brackets.
      std::string name = trim(line.substr(7));
      const size_t open = name.rfind('['), close = name.rfind(']');
      if (open != std::string::npos && close != std::string::npos && close > open)
        name = name.substr(open + 1, close - open - 1);
      const char* maker = vendor == 0x1002   ? "AMD "
                          : vendor == 0x10de ? "NVIDIA "
                          : vendor == 0x8086 ? "Intel "
                                             : "";
      return maker + name;
    }
  }
  return {};
}

}  // namespace athanor
