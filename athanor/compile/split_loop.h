// Loops taken apart again: what fusion joined because it walks the same space may be computations that have
// nothing to do with each other.
#pragma once
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A part of a loop, as a loop. Steps and operands stand in the order that its stores need them, so that
/// parts that compute the same on other buffers are equal programs.
struct LoopPart {
  LoopProgram program;
  std::vector<int> buffers;  // by the part's numbers: those of the loop it comes from
};

/// The parts of a simplified loop without reductions that have no buffer in common, but for elements that all
/// of the loop reads (a learning rate). One part where the loop has no dimension.
std::vector<LoopPart> independent_parts(const LoopProgram& program);
/// All of it as one part.
LoopPart whole_loop(const LoopProgram& program);

/// Whether two loops differ in extent and buffers only. Without a dimension there is one element, whatever
/// the strides.
bool same_program(const LoopProgram& a, const LoopProgram& b);

}  // namespace athanor
