// Kernels that come from no op (probes, memory tests, loops joined into one launch), on a device of any
// backend that runs the kernel language.
#pragma once
#include <functional>
#include <optional>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {

/// What a compiled kernel takes of a device, as its driver says. 0 is also what a driver does not say.
struct KernelResources {
  int registers = 0;      // of an item
  int private_bytes = 0;  // of an item: spilled registers, and arrays that are not in registers
  int local_bytes = 0;    // of a group
  int waves = 0;          // of it, that a multiprocessor (CU, work-group processor) holds at once
  int most_waves = 0;     // that it holds of any kernel
};

struct GpuAccess {
  GpuTraits traits;
  uint64_t largest_buffer = 0;  // bytes
  bool waves = false;           // whether kernels may ask for WAVE_WIDTH()
  std::function<Candidate(GpuCandidate)> make;
  /// Of each launch, which is compiled for it. Not set where no driver tells.
  std::function<std::vector<KernelResources>(const GpuCandidate&)> resources = {};
};

/// A backend whose devices run the kernel language.
class KernelLanguageBackend : public Backend {
 public:
  virtual GpuAccess access(int device) = 0;
};

/// None for devices that do not run the kernel language.
std::optional<GpuAccess> gpu_access(Device device);

}  // namespace athanor
