// The op that multiplies matrices of a type.
#pragma once
#include "athanor/graph/op.h"

namespace athanor {

/// wide_batch_matmul for types whose sums need a wider type, else batch_matmul.
const Op& product_op(DType factors);

}  // namespace athanor
