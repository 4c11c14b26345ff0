// Two loops as one: the second reads what the first stores while it is in a register.
#pragma once
#include <optional>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// What `first` and then `second` do, in one walk. Their spaces have the same elements, but perhaps other
/// dimensions, or in another order: they are walked as `first` does. `numbers[b]` is the number that the
/// second's buffer b has among the `buffers` of the result; the first's are numbered so already. What the
/// second reads of buffers that the first's body stores is not loaded, nor rounded to what it is stored as.
///
/// None where the second reads other elements than the first stores at the same time, or results of its
/// reductions; where both reduce, but not along the same dimensions; or where dimensions do not fit.
std::optional<LoopProgram> joined_walk(const LoopProgram& first, const LoopProgram& second,
                                       const std::vector<int>& numbers, int buffers);

}  // namespace athanor
