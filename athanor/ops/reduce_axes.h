// For authors of ops: the axes of reductions.
#pragma once
#include "athanor/graph/tensor.h"
#include "athanor/ops/reduction.h"

namespace athanor {

/// The axes as a sorted list in [0, rank).
Ints reduced_axes(const Axes& axes, int rank);
/// What was reduced from `shape` over `axes`, with those axes back as extents of 1.
Tensor keep_axes(const Tensor& reduced, const Shape& shape, const Ints& axes);
/// How many elements of `shape` are reduced to one.
int64_t reduced_count(const Shape& shape, const Ints& axes);

}  // namespace athanor
