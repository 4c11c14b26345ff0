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

/// A backend whose devices run the kernel language.
class KernelLanguageBackend : public Backend {
 public:
  virtual GpuAccess access(int device) = 0;
};

/// None for devices that do not run the kernel language.
std::optional<GpuAccess> gpu_access(Device device);

}  // namespace athanor
