// The chip and product of a PCI device id, from data/gpu_ids.toml.
#pragma once
#include <cstdint>
#include <string>

namespace athanor {

struct GpuModel {
  int64_t vendor = 0, from = 0, to = 0;  // PCI vendor, and the range of device ids
  std::string arch;                      // "gfx1030", "sm_89", "acm-g11"
  std::string name;                      // with its maker: "AMD Radeon RX 6800/6900", "Intel Arc A380"
  bool integrated = false;               // part of a processor, and shares its memory
};

/// The model of a device id; nullptr if the data does not have the id.
const GpuModel* find_gpu_model(int64_t vendor, int64_t device);

}  // namespace athanor
