// Kernels that come from no op (probes, memory tests, loops joined into one launch), on a device of any
// backend that runs the kernel language.
#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {

/// The resources that a compiled kernel uses, as the device's driver reports them. 0 also stands for a number
/// that it does not report.
struct KernelResources {
  int registers = 0;      // of an item
  int private_bytes = 0;  // of an item: spilled registers, and arrays that are not in registers
  int local_bytes = 0;    // of a group
  int waves = 0;          // of the kernel that a multiprocessor (CU, work-group processor) holds at once
  int most_waves = 0;     // the most that a multiprocessor can hold of any kernel
};

struct GpuAccess {
  GpuTraits traits;
  uint64_t largest_buffer = 0;  // bytes
  bool waves = false;           // whether kernels may ask for WAVE_WIDTH()
  std::function<Candidate(GpuCandidate)> make;
  /// The resources of each launch; compiles the launches. Not set if the driver does not report them.
  std::function<std::vector<KernelResources>(const GpuCandidate&)> resources = {};
};

/// A backend whose devices run the kernel language.
class KernelLanguageBackend : public Backend {
 public:
  virtual GpuAccess access(int device) = 0;
  bool takes_strides(const Op& op) const override { return gpu_takes_strides(op); }
  std::vector<Layout> preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                        const TensorType& output, const Attrs& attrs) override {
    return gpu_layouts(op, inputs, output, attrs, access(output.device.index).traits);
  }
  int64_t row_alignment(int device) override { return access(device).traits.grain->row_alignment; }
  bool has_cheap_functions(int device) override { return access(device).traits.grain->cheap_functions; }
  bool computes_together(int device, const KernelRequest& request) override {
    return gpu_computes_together(request, access(device).traits);
  }
  bool takes_epilogue(int device, const KernelRequest& request) override {
    return gpu_takes_epilogue(request, access(device).traits);
  }
  bool takes_prologue(int device, const KernelRequest& request) override {
    return gpu_takes_prologue(request, access(device).traits);
  }
  std::string slow_in(int device, DType dtype) override { return gpu_slow_in(dtype, access(device).traits); }
  int64_t most_joined_buffers(int device) override { return access(device).traits.max_buffers; }
  bool takes_row_chain(int device, std::span<const LoopProgram> loops) override {
    return gpu_takes_row_chain(loops, access(device).traits);
  }
  Candidate row_chain_kernel(int device, std::span<const LoopProgram> loops) override {
    const GpuAccess known = access(device);
    return known.make(gpu_row_chain(loops, known.traits));
  }
  Candidate joined_kernel(int device, std::span<const LoopProgram> loops) override {
    const GpuAccess known = access(device);
    return known.make(gpu_joined_loops(loops, known.traits));
  }
  std::optional<SplitKernel> split_kernel(int device, const Candidate& kernel, size_t buffers) override;
};

/// The target whose kernels an architecture runs: "gfx1100" (hip), "sm_86" (cuda). None for other names.
std::optional<GpuTarget> target_of_architecture(std::string_view architecture);
/// Adds the features of an architecture that kernels may use: its matrix units, and other instructions; and
/// the data sheet of its typical card.
void add_architecture(GpuTraits& traits, GpuTarget target, std::string_view architecture);
/// Sets what drivers report for an architecture's typical card (data/typical_gpus.csv): local memory and, if
/// the card is known, compute units. For kernels that are looked at without a device.
void set_driver_facts(GpuTraits& traits, GpuTarget target, std::string_view architecture);
/// Sets the architecture of the device 'offline', which need not exist. Call it before plans are made.
void set_offline_architecture(GpuTarget target, std::string_view architecture);

/// None for devices that do not run the kernel language.
std::optional<GpuAccess> gpu_access(Device device);

}  // namespace athanor
