// The devices on the PCI bus that could compute, and the ports between them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

namespace pci_vendor {
constexpr int64_t amd = 0x1002, nvidia = 0x10de, intel = 0x8086;
}

struct PciDevice {
  std::string folder;   // in /sys
  std::string address;  // "0000:03:00.0"
  std::string driver;   // the driver that runs it: "amdgpu", ...; "" for none
  int64_t vendor = 0, device = 0, device_class = 0;
  int64_t revision = -1;  // -1 if it is not given
};

/// Display controllers and processing accelerators of AMD, NVIDIA and Intel, in the order of their addresses.
/// Other vendors are left out, because the display controllers of servers and virtual machines do not
/// compute. Their devices are found if a runtime lists them.
std::vector<PciDevice> find_pci_devices(const Machine& machine);

/// 128 for /dev/dri/renderD128; -1 if the device has no render node.
int64_t render_minor_of(const Machine& machine, const PciDevice& device);

/// The ports above a device, from the root port down to the device's own; empty if /sys does not list them.
std::vector<std::string> ports_above(const Machine& machine, const std::string& address);

/// The ACS Control register in a port's configuration space, read from its first bytes. Access Control
/// Services decide whether traffic between two devices goes straight through a switch or up to the processor.
struct AcsControl {
  enum class State {
    unreadable,  // without root, only 64 of the 4096 bytes can be read
    absent,      // the port has no ACS, so it redirects nothing
    present,
  } state = State::unreadable;
  uint16_t bits = 0;

  /// Whether requests between devices, or the answers to them, are sent up to the processor.
  bool redirects() const {
    return state == State::present && (bits & (request_redirect | completion_redirect));
  }
  static constexpr uint16_t request_redirect = 4, completion_redirect = 8;
};

AcsControl parse_acs(std::string_view config);

}  // namespace athanor
