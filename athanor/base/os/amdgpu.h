// What the amdgpu driver answers about a card.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

struct AmdgpuInfo {
  uint32_t compute_units = 0;  // that work: cu_active_number
  uint32_t wave_width = 0, memory_bus_bits = 0;
  bool integrated = false;
};

/// Asks a render node that belongs to amdgpu ("/dev/dri/renderD128"); none where it may not be opened or the
/// driver does not answer, and on systems without it. Other drivers understand the question differently.
std::optional<AmdgpuInfo> amdgpu_info(const std::string& node);

}  // namespace athanor::os
