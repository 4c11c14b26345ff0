// Kernels that come from no op (probes, memory tests, loops joined into one launch), on a device of any
// backend that runs the kernel language.
#pragma once
#include <functional>
#include <optional>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {

struct GpuAccess {
  GpuTraits traits;
  uint64_t largest_buffer = 0;  // bytes
  bool waves = false;           // whether kernels may ask for WAVE_WIDTH()
  std::function<Candidate(GpuCandidate)> make;
};

/// None for devices that do not run the kernel language (the CPU backend).
std::optional<GpuAccess> gpu_access(Device device);

/// For backends, once in a program.
void register_gpu_access(uint8_t provider, std::function<GpuAccess(int index)> open);

}  // namespace athanor
