// Pooling over windows of floats [N, C, H, W] -> [N, C, OH, OW] with OH = (H + 2 padding - kernel) / stride +
// 1.
//
// All throw Error(shape) for another rank or a kernel that is larger than the padded input, and Error(value)
// for options out of range.
#pragma once
#include <optional>

#include "athanor/graph/tensor.h"
#include "athanor/ops/conv.h"

namespace athanor {

struct PoolOptions {
  std::optional<Pair> stride = {};  // default: the kernel, so that windows do not overlap
  Pair padding = 0;                 // at most half the kernel
  bool count_include_pad = true;    // whether averages count the padding
};

/// The largest element of each window; padding is never the largest. The gradient goes to the first largest
/// element.
Tensor max_pool2d(Operand x, Pair kernel, const PoolOptions& options = {});
/// The average of each window.
Tensor avg_pool2d(Operand x, Pair kernel, const PoolOptions& options = {});
/// Chooses windows so that the result is [N, C, output.height, output.width]: row i is pooled from rows
/// [floor(i H / OH), ceil((i + 1) H / OH)).
Tensor adaptive_avg_pool2d(Operand x, Pair output);
Tensor adaptive_max_pool2d(Operand x, Pair output);

}  // namespace athanor
