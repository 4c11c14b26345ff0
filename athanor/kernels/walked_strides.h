// The strides that a loop walks by.
#pragma once
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// Those of operands and affine indices. Strides that matter to nobody become 0, which merges with anything:
/// an epilogue's along reduced dimensions, where it sees index 0, and those of operands that no step uses.
std::vector<Ints*> walked_strides(LoopProgram& program);

}  // namespace athanor
