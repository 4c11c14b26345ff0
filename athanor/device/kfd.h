// AMD's compute driver has a folder ("node") in /sys/class/kfd for each CPU socket and each GPU or part of a
// GPU.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

using KfdProperties = std::map<std::string, uint64_t>;

/// The value of a property; 0 if there is no such property.
uint64_t kfd_value(const KfdProperties& properties, const char* name);

struct KfdNode {
  std::string folder;
  int index = 0;  // its number: the folder's name
  KfdProperties properties;

  uint64_t value(const char* name) const { return kfd_value(properties, name); }
  std::string pci() const;    // "0000:03:00.0"
  int64_t partition() const;  // the number of the part, if the device is split into several
  std::string gfx() const;    // "gfx1030"; "" if it is not given
};

/// The nodes of GPUs. Nodes without SIMDs are CPUs.
std::vector<KfdNode> kfd_gpus(const Machine& machine);

/// Reads "name value" lines as KFD writes them; leaves out values that are not numbers.
KfdProperties parse_kfd_properties(std::string_view text);
/// "gfx90a" for KFD's 90010; "" for a number out of range.
std::string gfx_name(uint64_t target_version);
/// "0000:03:00.0" for a domain and bus << 8 | device << 3 | function.
std::string pci_address(uint64_t domain, uint64_t location);

}  // namespace athanor
