// Loops in a canonical order, so that loops that compute the same on other tensors are equal.
#pragma once
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A simplified loop without reductions. Its steps, operands and buffers are in the order in which its stores
/// need them.
struct CanonicalLoop {
  LoopProgram program;
  std::vector<int> buffers;  // for each of the program's buffers: the number it had in the original loop
};

CanonicalLoop canonical(const LoopProgram& program);

/// Whether two loops differ only in extent and buffers. Without a dimension there is one element, so strides
/// do not matter.
bool same_program(const LoopProgram& a, const LoopProgram& b);

}  // namespace athanor
