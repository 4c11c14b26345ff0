// GPUs as the PCI bus and AMD's kernel driver (KFD) list them; no runtime is asked.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor::doctor {

enum class Vendor { amd, nvidia, intel };

struct Gpu {
  std::string address;  // "0000:03:00.0"
  Vendor vendor = Vendor::amd;
  uint16_t id = 0;          // PCI device id
  std::string driver;       // bound to it: "amdgpu", "nouveau", ...; "" for none
  std::string name;         // of the model, as far as it is known
  std::string arch;         // "gfx1030", "sm_89"; "" where it is not known
  std::string arch_source;  // what said so: a KFD node, or the data by PCI id
  bool integrated = false;
  int kfd_node = -1;  // -1: KFD does not list it
  uint64_t hive = 0;  // GPUs with the same one are joined by XGMI; 0 for none
  /// Of /dev/dri/renderD128; "" for none.
  std::string render_node;

  /// "Radeon RX 6800 XT (gfx1030)"
  std::string title() const;
};

/// In the order of their PCI addresses.
std::vector<Gpu> read_gpus(const Machine& machine);

/// {12, 0} of "sm_120" as 120: major * 10 + minor; 0 for what is none.
int sm_number(std::string_view arch);

}  // namespace athanor::doctor
