// Which op multiplies matrices of a type.
#pragma once
#include "athanor/graph/op.h"

namespace athanor {

/// batch_matmul; for types whose sums need a wider one, wide_batch_matmul.
const Op& product_op(DType factors);

}  // namespace athanor
