// Kernels that come from no op (probes, memory tests, loops joined into one launch), on a device of any
// backend that runs the kernel language.
#pragma once
#include <functional>
#include <optional>
#include <string_view>

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
  bool takes_strides(const Op& op) const override { return gpu_takes_strides(op); }
  bool computes_together(const Op& op, const Op& with) const override {
    return gpu_computes_together(op, with);
  }
  bool takes_epilogue(int device, const KernelRequest& request) override {
    return gpu_takes_epilogue(request, access(device).traits);
  }
  int64_t most_joined_buffers(int device) override { return access(device).traits.max_buffers; }
  Candidate joined_kernel(int device, std::span<const LoopProgram> loops) override {
    const GpuAccess known = access(device);
    return known.make(gpu_joined_loops(loops, known.traits));
  }
};

/// Whose kernels an architecture runs: "gfx1100" (hip), "sm_86" (cuda). None for what is neither.
std::optional<GpuTarget> target_of_architecture(std::string_view architecture);
/// Adds what kernels may use of an architecture: its matrix units, and instructions beside them.
void add_architecture(GpuTraits& traits, GpuTarget target, std::string_view architecture);
/// Sets what drivers are known to report of an architecture's typical card (data/typical_gpus.csv), for
/// kernels that are looked at without a device: local memory and, if the card is known, compute units.
void set_driver_facts(GpuTraits& traits, GpuTarget target, std::string_view architecture);
/// Gives the device 'offline', which need not be there, an architecture. To be called before plans are made.
void set_offline_architecture(GpuTarget target, std::string_view architecture);

/// None for devices that do not run the kernel language.
std::optional<GpuAccess> gpu_access(Device device);

}  // namespace athanor
