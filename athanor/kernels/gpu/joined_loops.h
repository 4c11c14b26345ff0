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

class JoinedLoops {
 public:
  JoinedLoops(std::span<const LoopProgram> programs, const GpuTraits& traits);
  GpuCandidate run();

 protected:
  void open_kernel(GpuLaunch& launch);
  /// Declares variables for the chosen loop's extent and buffers: those of the first loop.
  void declare_loop();
  GpuCandidate finish(GpuLaunch& launch, const char* what);

  std::span<const LoopProgram> programs_;
  // The loop that all are, whose buffers are names for the chosen loop's.
  LoopProgram pattern_;
  std::vector<std::vector<int>> bound_;  // [name][program]: its buffer in every loop
  int64_t items_ = 1;                    // of a group
  // Whether items may lie beyond their loop. Before that branch Clang keeps the result of every comparison
  // with a loop's first group for the choices behind it: of many loops, more than a wave's scalar registers.
  bool checks_ = true;
  std::string index_type_;
  Code code_;

 private:
  void name_buffers();
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
