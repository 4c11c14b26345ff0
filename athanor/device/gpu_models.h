// Which chip and product a PCI device id means: data/gpu_ids.toml.
#pragma once
#include <cstdint>
#include <string>

namespace athanor {

struct GpuModel {
  int64_t vendor = 0, from = 0, to = 0;  // PCI vendor, and the ids that mean it
  std::string arch;                      // "gfx1030", "sm_89", "acm-g11"
  std::string name;                      // with its maker: "AMD Radeon RX 6800/6900", "Intel Arc A380"
  bool integrated = false;               // part of a processor, whose memory it shares
};

/// nullptr for an id that the data does not have.
const GpuModel* find_gpu_model(int64_t vendor, int64_t device);

}  // namespace athanor
