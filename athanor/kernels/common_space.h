// Loops with the same elements, over the same dimensions.
#pragma once
#include <optional>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// The dimensions into which those of both spaces can be cut, without those of extent 1. None if there are no
/// such dimensions, or if the spaces have another number of elements.
std::optional<Ints> common_space(const Ints& a, const Ints& b);

/// The same loop over such dimensions.
LoopProgram over(LoopProgram program, const Ints& space);

}  // namespace athanor
