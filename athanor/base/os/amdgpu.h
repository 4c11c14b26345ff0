// The amdgpu driver's answers about a card.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

struct AmdgpuInfo {
  uint32_t compute_units = 0;  // active ones: cu_active_number
  uint32_t wave_width = 0, memory_bus_bits = 0;
  bool integrated = false;
};

/// Asks a render node that belongs to amdgpu ("/dev/dri/renderD128"). None if it cannot be opened, if the
/// driver does not answer, and on systems without it. Do not ask other drivers: they understand the question
/// differently.
std::optional<AmdgpuInfo> amdgpu_info(const std::string& node);

}  // namespace athanor::os
