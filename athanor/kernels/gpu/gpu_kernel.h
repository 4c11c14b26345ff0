// Kernels for devices that run the kernel language (OpenCL, CUDA, HIP): their source and launches, as data.
// docs/kernel-language.md describes the language.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/gpu/grain.h"
#include "athanor/kernels/gpu/matrix_unit.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

struct DataSheet;

/// What the generator and the templates need to know about a device, as its driver reports it.
struct GpuTraits {
  int64_t max_group_size = 256;       // work-items in a work-group
  int64_t local_bytes = 32 * 1024;    // local (CUDA: shared) memory of a work-group, as kernels declare it
  int64_t local_bytes_at_launch = 0;  // the most that a launch can ask for; 0: what kernels may declare
  int compute_units = 1;
  int64_t max_buffers = 64;          // that a kernel takes
  const Grain* grain = &fine_grain;  // how work is cut for this kind of device
  /// The device's data sheet, or that of its architecture's typical card; nullptr if there is neither.
  const DataSheet* sheet = nullptr;
  bool f64 = false;         // double-precision arithmetic
  bool f16 = false;         // half-precision arithmetic; not needed to store f16 and bf16
  bool atomics_64 = false;  // compare-and-swap of 64 bits in global memory
  std::span<const MatrixUnit> matrix_units = {};  // that kernels may name; best first for each type
  std::span<const MatrixUnit> lane_units = {};    // what lanes compute where there is no unit
  /// Whether tiles that lanes multiply are better guesses than other products. False if it is not known how
  /// well a driver's compiler translates them.
  bool lanes_lead = true;
  bool unrolls_nests = false;  // OpenCL's compiler unrolls loops in loops; Intel's does not
  bool registers = false;      // kernels may read and write memory by registers (READ_REGISTERS)
  bool async_copies = false;   // and copy from global to local memory by ASYNC_COPY
  bool box_copies = false;     // and by COPY_BOX
  bool buffer_tables = false;  // kernels may take all their buffers as one parameter (BUFFERS)

  /// The most local memory of a work-group, for kernels that ask for it at launch (LOCAL_AT_LAUNCH).
  int64_t most_local_bytes() const { return std::max(local_bytes, local_bytes_at_launch); }
};

/// Memory as a tensor of which a kernel copies boxes to local memory, each by one command (COPY_BOX in the
/// language; NVIDIA's TMA). The kernel's parameter describes it, in place of an address. The innermost
/// dimension comes first and has no gaps. A box has 128 bytes of the innermost dimension, whose chunks are
/// permuted as for LOCAL_MATRIX, and one element of the last dimension. Elements beyond the tensor are zeros.
struct BoxedTensor {
  size_t argument = 0;  // of the launch, at which the tensor begins: a multiple of 16 bytes
  int64_t element_bytes = 0;
  std::array<int64_t, 4> extents{};
  std::array<int64_t, 3> strides{};  // of the outer dimensions, in bytes: multiples of 16
  std::array<int64_t, 3> box{};      // elements of the inner dimensions, at most 256
};

/// One launch of one kernel. The source has every extent of the problem as a constant. Its only parameters
/// are buffers, and tensors that lie in them.
struct GpuLaunch {
  std::string name;    // of the entry point, a C identifier
  std::string source;  // in the kernel language; render() adds what a target's compiler needs
  std::array<int64_t, 3> groups = {1, 1, 1};
  std::array<int64_t, 3> group_size = {1, 1, 1};
  int64_t local_bytes = 0;       // local memory of a work-group, which the source declares
  bool local_at_launch = false;  // the source declares it by LOCAL_AT_LAUNCH
  /// What a parameter of the entry point, or an element of its table of buffers, is bound to: one of the
  /// Kernel's buffers (inputs, output, scratch), and an offset into it in bytes.
  struct Argument {
    int buffer = 0;
    int64_t byte_offset = 0;
    bool operator==(const Argument&) const = default;
  };
  std::vector<Argument> arguments;
  std::vector<BoxedTensor> tensors = {};
  /// The last parameters (not among `arguments`) are a buffer `fault` and an int `fault_code`, the number
  /// under which this launch reports: see FAULT in the language.
  bool can_fault = false;
  /// Options for OpenCL's compiler, in addition to those for every kernel: "-cl-intel-256-GRF-per-thread".
  std::string compile_options = {};
  /// What the launch does, if it only joins the parts that earlier launches have left in scratch memory, to
  /// one element. Another launch may do so later, for several kernels at once: see Backend::split_kernel().
  struct Joining {
    LoopProgram program;
    /// Of the program's buffers: the number of one of this launch's arguments, and bytes behind it.
    std::vector<Argument> places;
    size_t parts = 0;   // the number of the argument at which all parts begin
    int64_t bytes = 0;  // of all parts
  };
  std::optional<Joining> joining = {};
};

/// One way to compute a request or a loop: launches in order. `parameters` is the point in a template's
/// tuning space; {} if it has none.
struct GpuCandidate {
  std::string name;  // "gemm 8x32"
  std::map<std::string, int64_t> parameters;
  size_t scratch_bytes = 0;
  std::vector<GpuLaunch> launches;
  bool fewer_products = false;  // see Candidate
};

/// The ways to compute a request, best guess first, for which the device has room; {} for composite ops
/// without a template, never {} for primitives that are not fused into loops. Throws Error(device) if the
/// device lacks something that the dtype needs.
std::vector<GpuCandidate> gpu_candidates(const KernelRequest& request, const GpuTraits& traits);
/// Whether gpu_candidates returns any.
bool gpu_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                    const Attrs& attrs, const GpuTraits& traits);
/// See Backend::preferred_layouts().
std::vector<Layout> gpu_layouts(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                                const Attrs& attrs, const GpuTraits& traits);
/// Whether gpu_candidates has kernels that do what the request's epilogue says; further results only if the
/// best guess computes them all at once.
bool gpu_takes_epilogue(const KernelRequest& request, const GpuTraits& traits);
/// Whether some of gpu_candidates compute the request's prologue when they read the input.
bool gpu_takes_prologue(const KernelRequest& request, const GpuTraits& traits);
/// Whether the op's kernels take strides: see Backend::takes_strides().
bool gpu_takes_strides(const Op& op);
/// Whether gpu_candidates has kernels for a request of several ops, and it is worth making.
bool gpu_computes_together(const KernelRequest& request, const GpuTraits& traits);
/// See Backend::slow_in().
std::string gpu_slow_in(DType dtype, const GpuTraits& traits);
/// The ways to compute a fused loop, best guess first. The buffer of the scratch memory has the number
/// `program.buffers`.
std::vector<GpuCandidate> gpu_loop_candidates(const LoopProgram& program, const GpuTraits& traits);

/// One launch for loops without reductions that differ only in their extent and their buffers. They have at
/// most one dimension, at least one element, and the same steps, offsets and strides. Their buffers are
/// numbered together.
GpuCandidate gpu_joined_loops(std::span<const LoopProgram> programs, const GpuTraits& traits);

/// One launch for loops that run one after the other, row by row (kernels/row_chain.h), and a second one that
/// joins the parts of sums over rows, if there are any. Whether the generator has a kernel for such a chain,
/// and the device gains from it.
bool gpu_takes_row_chain(std::span<const LoopProgram> loops, const GpuTraits& traits);
GpuCandidate gpu_row_chain(std::span<const LoopProgram> loops, const GpuTraits& traits);

/// The targets of the kernel language.
enum class GpuTarget : uint8_t { opencl, cuda, hip };
struct GpuTargetName {
  GpuTarget target;
  std::string_view name;    // "opencl", as its backend
  std::string_view suffix;  // of files of kernels: "cl"
  bool by_architecture;     // its kernels differ between architectures, which add_architecture() knows
};
/// All of them.
std::span<const GpuTargetName> gpu_targets();
const GpuTargetName& name_of(GpuTarget target);
/// "opencl"
std::string_view to_string(GpuTarget target);
/// The whole source of a launch for a target's compiler: the group's extents, the target's header, the part
/// that all targets share, and the launch's own source.
std::string render(const GpuLaunch& launch, GpuTarget target);
/// The same for people: the header is in a file of its own, language_header_name, which the text includes. A
/// comment names the compile options.
std::string render_for_reading(const GpuLaunch& launch);
inline constexpr std::string_view language_header_name = "kernel_language.h";
std::string language_header(GpuTarget target);
/// One source for several launches, so that a compiler reads the header once. Names that a launch's source
/// declares are followed by its number there: "gemm_3" is the entry point of launch 3.
std::string render_together(std::span<const GpuLaunch* const> launches, GpuTarget target);
std::string name_together(const GpuLaunch& launch, size_t number);
/// The text of a template of athanor/kernels/gpu/templates: template_text("gemm"). Throws Error(internal).
std::string_view template_text(std::string_view name);

/// "#define NAME VALUE" lines, in order: the constants of a template.
class Defines {
 public:
  Defines& set(std::string_view name, int64_t value);
  Defines& set(std::string_view name, std::string_view value);
  /// The language's name of the dtype: DTYPE is f32 with set_dtype("DTYPE", DType::f32).
  Defines& set_dtype(std::string_view name, DType dtype);
  /// The source behind the lines of the names that it uses. (Values use no names.)
  std::string before(const std::string& source) const;

 private:
  struct Line {
    std::string name, value;
  };
  std::vector<Line> lines_;
};

/// "f32": the suffix of the language's LOAD_, STORE_ and types. Bool is "b8".
std::string_view language_name(DType dtype);

}  // namespace athanor
