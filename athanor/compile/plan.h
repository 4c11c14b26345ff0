// Plan: what will run, as data. It lists every kernel and copy with its device, its queue, the
// steps that it waits for, the memory that it uses, and the reason for which a kernel was chosen.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "athanor/compile/graph.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A block of memory that steps read and write. It belongs to the device of its type.
struct PlanValue {
  enum class Kind : uint8_t { input, output, temporary };
  TensorType type;
  Layout layout;
  int64_t row_pitch = 0;  // elements from one row of the last axis to the next; 0: as many as it has
  Kind kind = Kind::temporary;
  int binding = -1;      // for inputs and outputs: which one
  int in_place_of = -1;  // the value whose memory it takes over: an input (for outputs) or another temporary
  int64_t offset = -1;   // for temporaries: bytes into their device's arena
  int first_step = -1, last_step = -1;  // the steps between which it is alive
  Segment segment = {};                 // the nn::checkpoint that it was made in

  /// With the gaps behind its rows.
  int64_t bytes() const;
};

/// Runs its steps in order. Steps of different queues run side by side, unless one waits for the other.
struct PlanQueue {
  Device device;
  QueueKind kind = QueueKind::kernels;
  bool operator==(const PlanQueue&) const = default;
};

/// "opencl:0", "opencl:0 copies in", "opencl:0 copies out"
std::string to_string(const PlanQueue& queue);

/// The temporaries and scratch memory of one device.
struct PlanArena {
  Device device;
  int64_t bytes = 0;  // the most that is used at one time
};

/// Where a kernel's argument starts.
struct BufferRef {
  int value = -1;
  int64_t byte_offset = 0;
};

/// One command.
struct PlanStep {
  enum class Kind : uint8_t {
    launch,  // runs a kernel
    copy,    // copies a value from one device to another: from buffers[0] to buffers[1]
  };
  Kind kind = Kind::launch;
  int queue = 0;           // index into Plan::queues
  std::vector<int> waits;  // steps of other queues that must have finished before
  bool signals = false;    // a step of another queue waits for this one
  // The ops that it computes: {"conv2d", "bias", "relu"}; for several loops: those of the first.
  std::vector<std::string> ops;
  Device device;                         // runs it; for copies: gets the value
  std::optional<KernelRequest> request;  // a kernel for an op, or
  std::vector<LoopProgram> loops;        // a fused loop, or several loops whose buffers are numbered together
  std::vector<BufferRef> buffers;        // the kernel's arguments, in order
  std::vector<int> reads, writes;        // values
  std::vector<int> after;                // values that must be written before, but are not read
  std::string where;                     // the user's line of the last op
  std::vector<std::string> parts;        // parts of the model that the ops belong to: {"layer1.0.conv1"}
  int64_t flops = 0, bytes = 0;          // arithmetic, and the least memory that is read and written
  bool chained = false;     // several loops run one after the other, row by row (kernels/row_chain.h)
  int updated = 0;          // for several loops that each update tensors in place: how many tensors
  bool off_device = false;  // the host computes it, because the op's device cannot
  bool again = false;       // computes what an earlier step has computed (recompute)
  // Filled in when kernels are chosen:
  Candidate kernel;
  std::string why;              // "fastest of 3", "only one", ...
  bool spares_scratch = false;  // the kernel is not the fastest, but needs less scratch memory
  std::vector<std::pair<std::string, double>> measured;  // candidates and their seconds
  std::vector<LeftOut> left_out;  // candidates that cannot run or are wrong, and what libraries do not offer
  int64_t scratch_offset = -1;

  /// "conv2d+bias+relu". Several loops: "update of 12 parameters" (or of 12 tensors, if a loop does not
  /// belong to one parameter), or "12 times mul+add".
  std::string name() const;
  /// "conv2d+bias+relu in layer1.0.conv1"
  std::string name_and_parts() const;
};

/// How much a plan recomputes instead of keeping it in memory.
struct Recomputation {
  int64_t kernels = 0;  // the kernels that run again
  int64_t flops = 0;    // their floating-point operations
  int64_t bytes = 0;    // the planned memory that this saves
  double seconds = 0;   // their time, measured or predicted; 0: not known
  double share = 0;     // their share of the plan's time, 0 to 1
  bool operator==(const Recomputation&) const = default;
};

struct Plan {
  std::vector<Device> devices;  // the devices of its values; that of the first output comes first
  std::vector<PlanQueue> queues;
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;       // in the order in which they are given to their queues
  std::vector<int> inputs, outputs;  // values, by binding
  std::vector<PlanArena> arenas;     // one for each device that needs one
  Recomputation recomputed;
  double compile_seconds = 0;
  double timing_seconds = 0;   // of them, spent timing candidates
  int64_t problems_timed = 0;  // whose candidates were timed
  /// Vendors' libraries that were asked for kernels: "cuBLASLt 13.1.0", "no cuDNN: it is not installed".
  std::vector<std::string> libraries = {};

  Device device() const { return devices.empty() ? Device{} : devices.front(); }
  /// The arenas of all devices together.
  int64_t arena_bytes() const;

  /// The queue's index in `queues`. Adds the queue if it is not there.
  int queue_number(PlanQueue queue);
  int64_t flops() const;
  int64_t bytes() const;
  /// The bytes of inputs, outputs that take over no input, and arenas, on all devices or on one.
  int64_t planned_memory_bytes() const;
  int64_t planned_memory_bytes(Device device) const;
  /// Steps that run on the host although their values are elsewhere.
  int kernels_off_device() const;
  int copies() const;
  /// Consecutive steps that a queue can capture and replay: launches of which only the first waits for other
  /// queues, and only the last is waited for. Each other step is a stretch by itself.
  struct Stretch {
    size_t first = 0, end = 0;
    size_t steps() const { return end - first; }
  };
  std::vector<Stretch> stretches() const;
  /// Why the plan cannot be captured once and replayed, so that each run gives the steps to their queues one
  /// by one: "it has one step". "" if a device that captures launches can replay some.
  std::string why_not_replayed() const;
};

/// Steps for a graph of primitives and ops with kernels.
Plan make_steps(const Graph& graph, const CompileOptions& options);
/// Has kernels write results that only a concatenation reads where they belong in it, if they can.
void write_concats(Plan& plan);
/// Runs loops that walk the same rows one after the other in one launch, if the device's backend has such
/// kernels: the statistics of a norm and its end, the gradients of its input and its weights.
void chain_rows(Plan& plan);
/// Runs loops that read a contraction's result in the contraction's kernel, if the device's kernels can:
/// elementwise loops with any results, and sums of rows, of columns and of channels. Values that only such
/// loops read are not stored. `donated`: see compile().
void absorb_loops(Plan& plan, const std::vector<bool>& donated);
/// Elementwise loops whose result only one contraction reads become its prologue, if the device has kernels
/// that compute it.
void absorb_prologues(Plan& plan);
/// Gives temporaries that products read rows at the multiples of bytes that Backend::row_alignment() asks
/// for.
void align_rows(Plan& plan);
/// Orders the steps so that little memory is alive at one time, and lets outputs take over donated inputs.
/// `donated`: see compile().
void order_steps(Plan& plan, const std::vector<bool>& donated, const CompileOptions& options);
/// Delays copies of inputs to other devices until a few kernels before they are needed.
void delay_copies(Plan& plan);
/// Runs loops with the same program on different tensors in one launch, such as the updates of many
/// parameters. Only on devices whose backend has such kernels (Backend::most_joined_buffers). The first loops
/// then run later and keep what they read alive, so loops join only while memory grows by little.
void join_loops(Plan& plan);
/// When kernels are chosen: runs launches that only join the parts of a reduction to one element later, many
/// in one launch, as join_loops() does. Returns whether there are such. The steps that do so have no kernel
/// yet.
bool join_ends(Plan& plan);
/// Chooses a kernel for every step that has none.
void choose_kernels(Plan& plan, const CompileOptions& options);
/// Recomputes temporaries right before their late use instead of keeping them: all values of each
/// nn::checkpoint except its results, and with a memory limit as many more as the plan needs to fit, at the
/// least cost by measured or predicted times. The same kernels run again, so results stay the same, bit for
/// bit. Results of sums and other reductions are small and always kept. Kernels must be chosen before; loops
/// that run again in part need kernels afterwards. Returns nothing if it finds no way to fit the plan.
std::optional<Plan> recompute(const Plan& plan, const CompileOptions& options);
/// The same, with the least memory that can be. Throws Error(usage) with that limit if it is still too much.
Plan recompute_most(const Plan& plan, const CompileOptions& options);
/// Whether the plan fits options.plan_limit() on every device that it applies to. Without a limit it fits.
bool fits_limit(const Plan& plan, const CompileOptions& options);
/// Gives every temporary, and every step's scratch memory, an offset in its device's arena.
void place_values(Plan& plan, const CompileOptions& options);
/// The step at which the most bytes of temporaries and scratch memory of the device are in use. For a plan
/// whose values are placed.
size_t fullest_step(const Plan& plan, Device device);
/// Finds the steps of other queues that each step must wait for: those that write memory which it uses, and
/// those that use memory which it writes.
void order_queues(Plan& plan);

/// The steps of a graph in order, with all memory except the kernels' scratch memory: the memory of a plan
/// whose kernels are not chosen yet. For passes that choose between equivalent graphs.
Plan schedule(const Graph& graph, const std::vector<bool>& donated, const CompileOptions& options);
/// Runs all passes: from the requested values to a plan that can run. `donated[i]`: input i is not needed
/// after the run, so an output may take over its memory.
Plan compile(const Graph& graph, const std::vector<bool>& donated, const CompileOptions& options);

/// The plan as text for people, with totals: a table if it is no wider than `columns` (at least 40), else a
/// few short lines for each step.
std::string explain(const Plan& plan, size_t columns = 1000);
/// The plan as data (schema: docs/architecture.md).
nlohmann::json to_json(const Plan& plan);

}  // namespace athanor
