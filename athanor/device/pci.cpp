#include "athanor/device/pci.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "athanor/base/text.h"

namespace athanor {
namespace {

bool may_compute(int64_t vendor, int64_t device_class) {
  const int64_t base = device_class >> 16;
  const bool display = base == 0x03, accelerator = base == 0x12;
  return (display || accelerator) &&
         (vendor == pci_vendor::amd || vendor == pci_vendor::nvidia || vendor == pci_vendor::intel);
}

std::map<std::string, std::string> parse_uevent(std::string_view text) {
  std::map<std::string, std::string> values;
  for (const std::string& line : split(text, '\n'))
    if (const size_t equals = line.find('='); equals != std::string::npos)
      values[line.substr(0, equals)] = line.substr(equals + 1);
  return values;
}

std::optional<int64_t> hexadecimal_id(const std::string& text) {
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size() ? std::optional(value)
                                                                                        : std::nullopt;
}

PciDevice read_device(const Machine& machine, const std::string& folder) {
  PciDevice found;
  found.folder = folder;
  auto uevent = parse_uevent(machine.read(folder + "/uevent").value_or(""));
  found.address = uevent["PCI_SLOT_NAME"];
  found.driver = uevent["DRIVER"];
  if (found.driver.empty()) {
    const std::string target = machine.link(folder + "/driver").value_or("");
    found.driver = target.substr(target.rfind('/') + 1);
  }
  const std::string ids = uevent["PCI_ID"];
  const size_t colon = std::min(ids.find(':'), ids.size());
  found.vendor =
      machine.read_number(folder + "/vendor").value_or(hexadecimal_id(ids.substr(0, colon)).value_or(0));
  found.device = machine.read_number(folder + "/device")
                     .value_or(hexadecimal_id(ids.substr(std::min(colon + 1, ids.size()))).value_or(0));
  found.device_class =
      machine.read_number(folder + "/class").value_or(hexadecimal_id(uevent["PCI_CLASS"]).value_or(0));
  found.revision = machine.read_number(folder + "/revision").value_or(-1);
  return found;
}

// "0000:03:00.0"
bool is_address(std::string_view name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
         name[name.size() - 8] == ':';
}

}  // namespace

std::vector<PciDevice> find_pci_devices(const Machine& machine) {
  std::vector<PciDevice> all;
  std::set<std::string> seen;
  for (const char* pattern : {"/sys/bus/pci/devices/*", "/sys/class/drm/card*/device"})
    for (const std::string& folder : machine.glob(pattern)) {
      PciDevice device = read_device(machine, folder);
      if (!may_compute(device.vendor, device.device_class)) continue;
      if (device.address.empty()) device.address = folder.substr(folder.rfind('/') + 1);
      if (seen.insert(device.address).second) all.push_back(std::move(device));
    }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return all;
}

int64_t render_minor_of(const Machine& machine, const PciDevice& device) {
  for (const std::string& node : machine.glob(device.folder + "/drm/renderD*")) {
    int64_t minor = -1;
    const size_t digits = node.rfind('D') + 1;
    if (std::from_chars(node.data() + digits, node.data() + node.size(), minor).ec == std::errc())
      return minor;
  }
  return -1;
}

std::vector<std::string> ports_above(const Machine& machine, const std::string& address) {
  std::vector<std::string> ports;
  // "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/..."
  for (const std::string& name : split(machine.resolve("/sys/bus/pci/devices/" + address).value_or(""), '/'))
    if (is_address(name)) ports.push_back(name);
  if (ports.empty() || ports.back() != address) return {};
  ports.pop_back();
  return ports;
}

AcsControl parse_acs(std::string_view config) {
  const auto at = [&](size_t offset, int bytes) {
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; --i)
      value = value << 8 | static_cast<uint8_t>(config[offset + static_cast<size_t>(i)]);
    return value;
  };
  // Extended capabilities are a list that starts at byte 256: id (16 bits), version (4), offset of the next
  // (12).
  constexpr size_t begin = 256, end = 4096;
  constexpr uint32_t acs = 0x000d;
  size_t offset = begin;
  for (size_t steps = 0; steps < (end - begin) / 8; ++steps) {  // a longer list is circular
    if (offset + 4 > config.size()) return {};
    const uint32_t head = at(offset, 4);
    if (head == 0xffffffff) return {};  // the device does not answer: it sleeps or was removed
    if ((head & 0xffff) == acs) {
      if (offset + 8 > config.size()) return {};
      return {AcsControl::State::present, static_cast<uint16_t>(at(offset + 6, 2))};
    }
    const size_t next = head >> 20;
    if (next == 0) return {AcsControl::State::absent, 0};
    if (next < begin || next % 4 != 0) return {};
    offset = next;
  }
  return {};
}

}  // namespace athanor
