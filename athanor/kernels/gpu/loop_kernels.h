// What the kernels of fused loops share: how a program's space is named and walked in source.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// The C expressions of a program's dimensions.
using Names = std::vector<std::string>;

int64_t power_of_two(int64_t at_most);

/// A group of a launch that joins the parts of some results: `items` work-items share each of `results`
/// neighbouring ones. `room`: the most items.
struct JoiningGroup {
  int64_t results = 1, items = 1;
};
JoiningGroup joining_group(int64_t parts, int64_t results, int64_t room, const GpuTraits& traits);

class LoopKernels {
 public:
  LoopKernels(const LoopProgram& program, const GpuTraits& traits);

 protected:
  int64_t extent(int d) const { return program_.space[static_cast<size_t>(d)]; }
  std::string_view index_type() const { return wide_ ? "i64" : "i32"; }
  /// The most work-items of a group.
  int64_t group_limit() const;
  /// The kept dimensions except the innermost.
  std::vector<int> outer_kept() const;

  /// The head of a kernel: one parameter for each buffer, and the scratch memory last.
  void begin_kernel(Code& code, const std::string& name, bool with_scratch = false) const;
  std::vector<GpuLaunch::Argument> arguments(bool with_scratch) const;
  /// Declares dim<d> for each of `dims`, from a folded index; fills `index`.
  void unfold(Code& code, const std::string& flat, const std::vector<int>& dims, Names& index) const;
  /// The body's registers and stores for one element.
  void compute(Code& code, const Names& index) const;

  const LoopProgram& program_;
  const GpuTraits& traits_;
  std::vector<DType> types_;  // of registers
  std::vector<int> kept_, reduced_;
  int64_t kept_size_ = 1, reduced_size_ = 1;
  bool wide_ = false;  // indices need 64 bits
  GpuCandidate result_;

 private:
  bool reaches_far(const LoopOperand& operand) const;
};

/// The kernels of a program without reductions, and of one with reductions.
GpuCandidate map_kernel(const LoopProgram& program, const GpuTraits& traits);
GpuCandidate reduction_kernels(const LoopProgram& program, const GpuTraits& traits);

}  // namespace athanor::gpu
