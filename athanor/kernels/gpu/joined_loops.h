// Several loops in one launch. Each work-group finds its loop by its number and takes that loop's extent and
// buffers. From there on, all loops are the same kernel.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/accumulators.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// The buffers of joined loops. A kernel names those of the chosen loop: m0, m1, ...
class JoinedBuffers {
 public:
  /// The buffers of `pattern`, one of the loops, become names.
  JoinedBuffers(std::span<const LoopProgram> programs, LoopProgram& pattern, const GpuTraits& traits);

  void open_kernel(Code& code, GpuLaunch& launch) const;
  /// Declares the names: as the buffers of loop number `loop`, an expression, or if there is no table, as
  /// those of the first loop.
  void declare(Code& code, const std::string& loop) const;
  /// Without a table: the names whose buffer is another one in loop p than in loop `before`.
  std::vector<size_t> changed(size_t p, size_t before) const;
  int buffer(size_t name, size_t p) const { return bound_[name][p]; }

  /// Whether the kernel takes its buffers as a table, in which it looks up the loop's. Choosing among many
  /// parameters takes instructions for each of them, and Clang 22 keeps hundreds in registers that it spills.
  bool table() const { return table_; }

 private:
  bool is_shared(size_t name) const;

  std::span<const LoopProgram> programs_;
  std::vector<std::vector<int>> bound_;  // [name][program]: its buffer in every loop
  std::vector<DType> types_;             // of each name
  size_t shared_ = 0;                    // how many names are the same buffer in all loops
  bool table_ = false;
};

class JoinedLoops {
 public:
  JoinedLoops(std::span<const LoopProgram> programs, const GpuTraits& traits);
  GpuCandidate run();

 protected:
  GpuCandidate finish(GpuLaunch& launch, const char* what);

  std::span<const LoopProgram> programs_;
  LoopProgram pattern_;  // the loop that all are
  JoinedBuffers buffers_;
  int64_t items_ = 1;  // of a group
  // Whether items may lie beyond their loop. Before that branch Clang keeps the result of every comparison
  // with a loop's first group for the choices behind it: of many loops, more than a wave's scalar registers.
  bool checks_ = true;
  std::string index_type_;
  Code code_;

 private:
  void choose_loop(GpuLaunch& launch);
  void compute(const std::string& flat);

  int64_t each_ = 1, width_ = 1;  // elements of an item, and of a vector
};

/// Loops that reduce all their elements. Each has one group.
class JoinedReductions : JoinedLoops, Accumulators {
 public:
  JoinedReductions(std::span<const LoopProgram> programs, const GpuTraits& traits);
  GpuCandidate run();

 private:
  void branch_to_loop();
};

}  // namespace athanor::gpu
