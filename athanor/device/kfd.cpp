#include "athanor/device/kfd.h"

#include <fmt/format.h>

#include <charconv>

#include "athanor/base/text.h"

namespace athanor {

uint64_t kfd_value(const KfdProperties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

// location_id has bus, device and function; its top bits number the parts of a partitioned device.
std::string KfdNode::pci() const { return pci_address(value("domain"), value("location_id") & 0xffff); }
int64_t KfdNode::partition() const { return static_cast<int64_t>(value("location_id") >> 28 & 0xf); }
std::string KfdNode::gfx() const { return gfx_name(value("gfx_target_version")); }

std::vector<KfdNode> kfd_gpus(const Machine& machine) {
  std::vector<KfdNode> all;
  for (const std::string& folder : machine.glob("/sys/class/kfd/kfd/topology/nodes/*")) {
    KfdNode node{folder, 0, parse_kfd_properties(machine.read(folder + "/properties").value_or(""))};
    if (node.value("simd_count") == 0) continue;
    std::from_chars(folder.data() + folder.rfind('/') + 1, folder.data() + folder.size(), node.index);
    all.push_back(std::move(node));
  }
  return all;
}

KfdProperties parse_kfd_properties(std::string_view text) {
  KfdProperties properties;
  for (const std::string& line : split(text, '\n')) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || space == 0) continue;
    const std::string number = trim(line.substr(space));
    uint64_t value = 0;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
    if (!number.empty() && end.ec == std::errc() && end.ptr == number.data() + number.size())
      properties[line.substr(0, space)] = value;
  }
  return properties;
}

std::string gfx_name(uint64_t target_version) {
  if (target_version < 10000 || target_version > 999999) return {};
  return fmt::format("gfx{}{:x}{:x}", target_version / 10000, target_version / 100 % 100,
                     target_version % 100);
}

std::string pci_address(uint64_t domain, uint64_t location) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain & 0xffffffff, location >> 8 & 0xff,
                     location >> 3 & 0x1f, location & 7);
}

}  // namespace athanor
