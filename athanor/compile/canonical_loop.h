// Loops in one order of writing, so that those that compute the same on other tensors are equal.
#pragma once
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A simplified loop without reductions whose steps, operands and buffers stand in the order that its stores
/// need them.
struct CanonicalLoop {
  LoopProgram program;
  std::vector<int> buffers;  // by the program's numbers: those of the loop that it was written from
};

CanonicalLoop canonical(const LoopProgram& program);

/// Whether two loops differ in extent and buffers only. Without a dimension there is one element, whatever
/// the strides.
bool same_program(const LoopProgram& a, const LoopProgram& b);

}  // namespace athanor
