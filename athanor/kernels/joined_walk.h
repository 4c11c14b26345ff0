// Two loops as one: the second reads what the first stores while it is in a register.
#pragma once
#include <optional>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

/// What `first` and then `second` do, in one walk. Their spaces have the same elements, but the dimensions
/// may differ or be in another order: they are walked in the order of `first`. `numbers[b]` is the number
/// that the second's buffer b has among the `buffers` of the result; the first's buffers already have these
/// numbers. If the second reads what the first's body stores, it uses the register: the value is neither
/// loaded nor rounded to the stored dtype.
///
/// Returns none if the second reads other elements than the first stores at the same time, or results of the
/// first's reductions; if both reduce, but not along the same dimensions; or if dimensions do not fit.
std::optional<LoopProgram> joined_walk(const LoopProgram& first, const LoopProgram& second,
                                       const std::vector<int>& numbers, int buffers);

}  // namespace athanor
