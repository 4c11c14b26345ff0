// The names of PCI devices in the machine's files.
#pragma once
#include <string>

#include "athanor/device/machine.h"

namespace athanor {

/// The name in libdrm's amdgpu.ids: "AMD Radeon RX 6800 XT"; "" if the machine has no such file or entry.
std::string amdgpu_name(const Machine& machine, uint32_t device, int64_t revision);
/// The name in pci.ids: "NVIDIA GeForce RTX 4090"; "" if the machine has no such file or entry.
std::string pci_name(const Machine& machine, uint32_t vendor, uint32_t device);

}  // namespace athanor
