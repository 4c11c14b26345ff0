// What a loop walks: the operands that its steps use, and their strides.
#pragma once
#include <utility>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// Which operands the body uses, and which the epilogue.
std::pair<std::vector<bool>, std::vector<bool>> used_operands(const LoopProgram& program);

/// The strides of operands and affine indices. Those that matter to nobody become 0, which merges with
/// anything: an epilogue's along reduced dimensions, where it sees index 0, and those of unused operands.
std::vector<Ints*> walked_strides(LoopProgram& program);

}  // namespace athanor
