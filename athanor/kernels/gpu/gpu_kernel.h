// Kernels for devices that are programmed in the kernel language (OpenCL, CUDA, HIP): their source and how
// they are launched, as data. docs/kernel-language.md describes the language.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// What generator and templates want to know of a device: as its driver reports it, whatever the vendor.
struct GpuTraits {
  int64_t max_group_size = 256;     // work-items in a work-group
  int64_t local_bytes = 32 * 1024;  // local (CUDA: shared) memory of a work-group
  int compute_units = 1;
  int64_t max_buffers = 64;  // that a kernel takes
  /// Whether work-items of a group run one after the other on a core with vector registers, as OpenCL does on
  /// CPUs: tuning starts with one work-item a group and wide rows there.
  bool is_cpu = false;
  bool f64 = false;         // double-precision arithmetic
  bool f16 = false;         // half-precision arithmetic; f16 and bf16 as storage need nothing
  bool atomics_64 = false;  // compare-and-swap of 64 bits in global memory
};

/// One launch of one kernel. The source has every extent of the problem as a constant, and takes buffers
/// only.
struct GpuLaunch {
  std::string name;    // of the entry point, a C identifier
  std::string source;  // in the kernel language; render() puts before it what a target's compiler needs
  std::array<int64_t, 3> groups = {1, 1, 1};
  std::array<int64_t, 3> group_size = {1, 1, 1};
  int64_t local_bytes = 0;  // local memory of a work-group, which the source declares
  /// What each parameter of the entry point is bound to: which of the buffers that a Kernel is launched with
  /// (inputs, output, scratch), and how many bytes into it.
  struct Argument {
    int buffer = 0;
    int64_t byte_offset = 0;
    bool operator==(const Argument&) const = default;
  };
  std::vector<Argument> arguments;
  /// The last parameter is a `GLOBAL int* fault` (not among `arguments`): see FAULT in the language.
  bool can_fault = false;
};

/// One way to compute a request or a loop: launches in order. `parameters` is the point of a template's
/// tuning space, {} where it has none.
struct GpuCandidate {
  std::string name;  // "gemm 8x32"
  std::map<std::string, int64_t> parameters;
  size_t scratch_bytes = 0;
  std::vector<GpuLaunch> launches;
};

/// The ways to compute a request, best guess first; {} for composite ops without a template, never {} for
/// primitives that are not fused into loops. Throws Error(device) where the device lacks what the dtype
/// needs.
std::vector<GpuCandidate> gpu_candidates(const KernelRequest& request, const GpuTraits& traits);
/// Whether gpu_candidates gives any.
bool gpu_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                    const Attrs& attrs);
/// The ways to compute a fused loop, best guess first. The scratch memory's buffer is number
/// `program.buffers`.
std::vector<GpuCandidate> gpu_loop_candidates(const LoopProgram& program, const GpuTraits& traits);

/// One launch of loops without reductions that differ in their extent and their buffers only: over at most
/// one dimension, of more than no elements, with the same steps, offsets and strides. They number their
/// buffers together.
GpuCandidate gpu_joined_loops(std::span<const LoopProgram> programs, const GpuTraits& traits);

/// The languages that the kernel language is mapped onto.
enum class GpuTarget : uint8_t { opencl, cuda, hip };
/// "opencl"
std::string_view to_string(GpuTarget target);
/// The whole source of a launch for a target's compiler: the group's extents, the target's header, what all
/// targets share, the launch's own source.
std::string render(const GpuLaunch& launch, GpuTarget target);
/// The text of a template of athanor/kernels/gpu/templates: template_text("gemm"). Throws Error(internal).
std::string_view template_text(std::string_view name);

/// "#define NAME VALUE" lines, in order: how a template gets its constants.
class Defines {
 public:
  Defines& set(std::string_view name, int64_t value);
  Defines& set(std::string_view name, std::string_view value);
  /// What the language calls the dtype: DTYPE is f32 with set_dtype("DTYPE", DType::f32).
  Defines& set_dtype(std::string_view name, DType dtype);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// "f32": the suffix of the language's LOAD_, STORE_ and types. Bool is "b8".
std::string_view language_name(DType dtype);

}  // namespace athanor
