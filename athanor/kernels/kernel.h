// Kernels and candidates: the contract between the compiler and the backends.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/loop_program.h"
#include "athanor/kernels/queue.h"
#include "athanor/memory/storage.h"

namespace athanor {

/// How the elements of a dense tensor lie in memory.
///
/// block 0: row-major. block b > 0, for [N, C, H, W] with C a multiple of b: [N, C/b, H, W, b]. oneDNN calls
/// this nChw8c and nChw16c. all_channels: [N, H, W, C], whatever C is.
struct Layout {
  int block = 0;
  static constexpr int all_channels = -1;
  bool is_channels_last() const { return block == all_channels; }
  /// How many of a tensor's channels lie together; 0: it is row-major.
  int64_t together(int64_t channels) const { return is_channels_last() ? channels : block; }
  bool operator==(const Layout&) const = default;
};

/// "row-major", "nChw16c", "nhwc"
std::string to_string(Layout layout);
/// The strides of [N, C, H, W] with channels last in memory.
Ints channels_last_strides(const Shape& shape);

/// One operand of a kernel. Row-major operands may be strided views (transposed matrices, broadcast rows)
/// with `strides` in elements. Blocked operands are always dense. Outputs have no gaps, except behind rows
/// that Backend::row_alignment() spaces and between the parts of a concatenation (Backend::takes_strides()).
/// They are row-major unless Backend::takes_strides() or Backend::preferred_layouts() says otherwise; those
/// of concat and pad may have channels last.
struct OperandDesc {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;  // row-major or blocked; operands with channels last are row-major ones with such strides
  Ints strides;   // one per axis; for blocked operands those of the row-major order, which mean nothing
  /// The alignment of the first element, in bytes. Memory begins at multiples of
  /// `whole_vectors`; a slice may begin elsewhere.
  int64_t alignment = whole_vectors;
  static constexpr int64_t whole_vectors = 16;
  /// How many elements behind the last one along the axis of stride 1 kernels may read, and write to an
  /// output. They mean nothing: they may be NaN.
  int64_t padding = 0;
  /// The elements of memory from the first one to the last, with its padding.
  int64_t reach() const;
  bool dense() const { return strides == contiguous_strides(shape); }
  bool channels_last() const { return shape.rank() == 4 && strides == channels_last_strides(shape); }
  bool operator==(const OperandDesc&) const = default;
};

/// How one of an op's inputs is computed before the op reads it: elementwise, from further inputs. A kernel
/// may compute each element when it reads it. For other kernels the loop runs first: the input has memory of
/// its own, which holds nothing before.
struct Prologue {
  size_t input = 0;     // of the op
  LoopProgram program;  // its buffers: the prologue's inputs, then the input that it computes
  /// How many inputs of the request are the prologue's: its last ones.
  size_t inputs() const { return static_cast<size_t>(program.buffers) - 1; }
};

/// What products are multiplied and summed in.
enum class ComputeType : uint8_t {
  by_dtypes,  // in the stored dtype; bf16, f16 and FP8 are summed in f32, i8 in i32
  /// Factors of f32 may be rounded to 10 bits of mantissa; sums are f32. NVIDIA's matrix units do so from
  /// sm_80 on; the xf32 of AMD's gfx942 is the same. Kernels compute by_dtypes unless they say that they do
  /// this too.
  tf32,
};

/// An op that needs a kernel: everything from which a backend decides which kernels it has.
struct KernelRequest {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<OperandDesc> inputs;   // the op's, then those of the epilogue, then those of the prologue
  std::vector<OperandDesc> outputs;  // the op's, then those of `with`, then further ones of the epilogue
  /// What is computed from each element of a contraction's result before it is stored: a loop over the
  /// result's elements in the order of its memory. Its buffer 0 is the result as it was accumulated, which is
  /// never in memory; then come the epilogue's inputs, and last all outputs. Empty body: no epilogue. It may
  /// store further results and reduce them: see has_further_results() in epilogue.h. It leaves the outputs of
  /// `with` alone.
  LoopProgram epilogue;
  /// What computes one of the op's inputs, see Prologue.
  std::optional<Prologue> prologue = {};
  /// The op's result, if only the epilogue's results are stored: `outputs` do not begin with it.
  std::optional<OperandDesc> unstored = {};
  /// Ops that are computed in the same kernel, from the same inputs and attributes.
  std::vector<const Op*> with = {};
  /// A kernel that is faster because it computes less exactly is no candidate.
  ComputeType compute = ComputeType::by_dtypes;
  /// Whether kernels of a vendor's library are candidates. Results do not depend on it.
  bool libraries = true;

  /// The op's result, stored or not.
  const OperandDesc& output() const { return unstored ? *unstored : outputs.front(); }
  bool has_epilogue() const { return !epilogue.body.empty(); }
  /// How many of `inputs` are the op's.
  size_t own_inputs() const;
  /// The number of the first output of `with` among `outputs`.
  size_t first_with() const { return unstored ? 0 : 1; }
  size_t prologue_inputs() const { return prologue ? prologue->inputs() : 0; }
  /// The number of the scratch buffer, which follows the inputs and outputs.
  int scratch_buffer() const { return static_cast<int>(inputs.size() + outputs.size()); }
  /// Floating-point operations of the ops without an epilogue; 0: not known.
  int64_t flops() const;
  /// The dtype of sums, and of other arithmetic.
  DType sum_type() const { return computed_in(output().dtype); }
  /// What is computed in, if it is not the output's dtype: "f32", "tf32"; else "".
  std::string computes_in() const;
  /// How far a result may be off by rounding alone, relative to the largest element: 0 for integers.
  double rounding() const;
  /// A name of the problem for tuning caches and people: "conv2d f32[64,64,32,32] f32[64,64,3,3] stride=[1,1]
  /// ...", "batch_matmul f16[1,64,64] f16[1,64,64] -> f16[1,64,64] in f32".
  std::string key() const;
};

struct GpuCandidate;

/// A compiled kernel, launched many times.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Gives the kernel's launches to a queue of its device. `buffers`: the inputs, the outputs, and the
  /// scratch memory if the kernel asked for some; they must live until the launches have run. `site` may be
  /// nullptr.
  virtual void enqueue(Queue& queue, std::span<const Binding> buffers,
                       const CommandSite* site = nullptr) const = 0;
  /// Does the first part of the first launch in advance: compiling. Threads may prepare several kernels at
  /// once.
  virtual void prepare() const {}
  /// The source and launches of a generated GPU kernel; nullptr for others.
  virtual const GpuCandidate* generated() const { return nullptr; }
};

/// One way to compute a request. All candidates of a request compute the same; timing decides which one runs.
struct Candidate {
  std::string name;  // "oneDNN winograd", "generic"
  size_t scratch_bytes = 0;
  std::shared_ptr<const Kernel> kernel;
  /// It may multiply less often than KernelRequest::flops() says, as Winograd's algorithm does, and so be
  /// faster than the roofline.
  bool fewer_products = false;
};

/// A kernel in two: what it does before its last launch, and that launch, which joins parts to one element.
struct SplitKernel {
  Candidate
      first;  // its buffers: those of the kernel, then the parts, then what is left of its scratch memory
  int64_t parts_bytes = 0;
  LoopProgram last;
  struct Place {
    size_t buffer = 0;  // of `first`
    int64_t byte_offset = 0;
  };
  std::vector<Place> places;  // of the loop's buffers
};

/// A kernel that was considered for a request, but will not run, and why: {"cuDNN 9.13.0 algorithm 6", "needs
/// 300 MiB of scratch memory, the most is 256 MiB"}.
struct LeftOut {
  std::string name, why;
  bool may_serve = false;  // it was perhaps only not needed: why it has no time is not remembered
};

/// A backend: devices that run kernels.
class Backend : public DeviceProvider, public Allocator {
 public:
  /// The kernels for a request, best guess first; {} if this backend has none and the op must decompose.
  /// Never {} for a primitive.
  virtual std::vector<Candidate> candidates(int device, const KernelRequest& request) = 0;
  /// Whether candidates() would return any for this op, in any layout. It is cheap, and called for every
  /// node.
  virtual bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                          const Attrs& attrs) = 0;
  /// Whether it has kernels that compute the request's epilogue. If not, a loop computes it later. It is
  /// cheap, and called for every chain of elementwise ops after a contraction.
  virtual bool takes_epilogue(int /*device*/, const KernelRequest& /*request*/) { return false; }
  /// The same for the request's prologue: whether some of its kernels compute it when they read the input.
  virtual bool takes_prologue(int /*device*/, const KernelRequest& /*request*/) { return false; }
  /// Whether a request of several ops (KernelRequest::with) is worth making: it has kernels for it. It is
  /// cheap, and called for every op that shares work with others.
  virtual bool computes_together(int /*device*/, const KernelRequest& /*request*/) { return false; }
  /// Whether its kernels for the op read matrices whose rows lie anywhere in memory, and write results whose
  /// axes, except the last, lie there in another order, with gaps that they leave as they are. Other kernels
  /// of whole ops have dense operands.
  virtual bool takes_strides(const Op& /*op*/) const { return false; }
  /// The multiples, in bytes, at which rows of matrices should begin, because products then read several
  /// elements at once. 1: anywhere.
  virtual int64_t row_alignment(int /*device*/) { return 1; }
  /// Whether computing exp, log, tanh or erf again takes less time than a value's way to memory and back.
  virtual bool has_cheap_functions(int /*device*/) { return false; }
  /// Why products of f16 or bf16 are not much faster than those of f32 on the device, to follow "on cpu, ";
  /// "" if they are.
  virtual std::string slow_in(int /*device*/, DType /*dtype*/) { return {}; }
  /// The vendor's libraries that were asked so far, for people: "cuBLASLt 13.1.0",
  /// "no cuDNN: ...".
  virtual std::vector<std::string> libraries(int /*device*/) { return {}; }
  /// Kernels that the libraries have for a request of candidates(), but that it did not return.
  virtual std::vector<LeftOut> left_out(int /*device*/, const KernelRequest& /*request*/) { return {}; }
  /// The layouts in which the op's kernels work best: inputs in order, then the output. {} means row-major.
  virtual std::vector<Layout> preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                                const TensorType& output, const Attrs& attrs) = 0;
  /// A kernel for a fused loop, with buffers as the program numbers them. Every backend can generate every
  /// loop.
  virtual Candidate loop_kernel(int device, const LoopProgram& program) = 0;
  /// The most buffers of a kernel that runs several loops in one launch; 0: it has no such kernels, because a
  /// launch costs nothing.
  virtual int64_t most_joined_buffers(int /*device*/) { return 0; }
  /// A kernel that runs loops which differ only in extents and buffers (canonical_loop.h), and have one
  /// dimension or none. Their buffers are numbered together. Either none of them reduces anything, or all
  /// reduce their dimension, which is short, store only what their epilogue computes from that, and have no
  /// argmax.
  virtual Candidate joined_kernel(int device, std::span<const LoopProgram> loops);
  /// A kernel of `buffers` buffers (and scratch memory) whose last launch may run later, together with those
  /// of others (joined_kernel). None if it has no such launch.
  virtual std::optional<SplitKernel> split_kernel(int /*device*/, const Candidate& /*kernel*/,
                                                  size_t /*buffers*/) {
    return {};
  }
  /// Whether it has a kernel that runs these loops one after the other, row by row, so that a row stays in
  /// caches between them. They form a row chain (row_chain.h), and their buffers are numbered together.
  virtual bool takes_row_chain(int /*device*/, std::span<const LoopProgram> /*loops*/) { return false; }
  virtual Candidate row_chain_kernel(int device, std::span<const LoopProgram> loops);
  /// The device's queue for kernels.
  virtual Queue& queue(int device) = 0;
  /// Its queues for copies from and to other devices, which run beside kernels; the same queue if there is
  /// only one.
  virtual Queue& copies_in(int device) { return queue(device); }
  virtual Queue& copies_out(int device) { return queue(device); }
  /// Whether the device computes in the host's memory, so that moving data there saves nothing.
  virtual bool has_unified_memory(int /*device*/) { return false; }
  /// Unloads kernels that nothing holds any more, such as candidates that lost. Waits for the device if there
  /// are any. A kernel that is asked for again is loaded again.
  virtual void unload_unused_kernels(int /*device*/) {}
  /// Whether threads of one process compile the device's kernels at the same time.
  virtual bool compiles_side_by_side(int /*device*/) { return true; }
  /// Compiles kernels of a device, several in a program, if that takes less time than preparing each.
  /// prepare() reports what does not compile. Throws Interrupted.
  virtual void compile_together(int /*device*/, std::span<const Kernel* const> /*kernels*/) {}
  /// Bytes that can still be allocated beside other programs, as the driver says; none if it does not say.
  virtual std::optional<uint64_t> free_memory(int /*device*/) { return {}; }
};

/// The backend of a device, and its queues.
Backend& backend_of(Device device);
Queue& queue_of(Device device, QueueKind kind = QueueKind::kernels);

}  // namespace athanor
