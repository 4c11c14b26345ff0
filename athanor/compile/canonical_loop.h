// Loops in a canonical order, so that loops that do the same to different tensors are equal.
#pragma once
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A simplified loop. Steps, operands and buffers are in the order in which the stores, the reductions and
/// the epilogue need them.
struct CanonicalLoop {
  LoopProgram program;
  std::vector<int> buffers;  // for each of the program's buffers: the number it had in the original loop
};

CanonicalLoop canonical(const LoopProgram& program);

/// Whether two loops differ only in extent and buffers. A space without dimensions has one element, so its
/// strides do not matter.
bool same_program(const LoopProgram& a, const LoopProgram& b);

}  // namespace athanor
