// What files of the machine call a PCI device.
#pragma once
#include <string>

#include "athanor/device/machine.h"

namespace athanor {

/// By libdrm's amdgpu.ids: "AMD Radeon RX 6800 XT"; "" where the machine has none or it does not say.
std::string amdgpu_name(const Machine& machine, uint32_t device, int64_t revision);
/// By pci.ids: "NVIDIA GeForce RTX 4090"; "" where the machine has none or it does not say.
std::string pci_name(const Machine& machine, uint32_t vendor, uint32_t device);

}  // namespace athanor
