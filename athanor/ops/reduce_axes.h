// For authors of ops: the axes of reductions.
#pragma once
#include "athanor/graph/tensor.h"
#include "athanor/ops/reduction.h"

namespace athanor {

/// The axes as a sorted list in [0, rank).
Ints reduced_axes(const Axes& axes, int rank);
/// Adds the reduced axes back, with extent 1, to the result of reducing `shape` over `axes`.
Tensor keep_axes(const Tensor& reduced, const Shape& shape, const Ints& axes);
/// How many elements of `shape` one result is reduced from.
int64_t reduced_count(const Shape& shape, const Ints& axes);

}  // namespace athanor
