// For authors of ops: the sizes of a two-dimensional convolution, from its shapes and attributes.
#pragma once
#include <functional>

#include "athanor/graph/op.h"
#include "athanor/ops/conv.h"

namespace athanor {

/// x [N, C, H, W], w [O, C/groups, KH, KW], y [N, O, OH, OW].
struct ConvProblem {
  Shape x, w, y;
  Pair stride, padding, dilation;
  int64_t groups;

  /// Computes y. Throws Error(shape|value) if the sizes do not fit.
  ConvProblem(const Shape& x_shape, const Shape& w_shape, const Attrs& attrs);

  int64_t multiplications() const;
  /// Calls f(offset in x, offset in w, offset in y) for every product that the convolution sums.
  void for_each_product(const std::function<void(int64_t, int64_t, int64_t)>& f) const;
};

Attrs conv_attrs(const Conv2dOptions& options);
Conv2dOptions conv_options(const Attrs& attrs);

/// The number of windows: (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1. Throws Error(shape)
/// if the kernel does not fit, and Error(value) for sizes out of range.
int64_t windows_along(int64_t extent, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);
/// x [N, C, H, W], padded, as windows [N, C, OH, KH, OW, KW].
Tensor windows_of(const Tensor& x, Pair kernel, Pair stride, Pair padding, Pair dilation, double fill);
/// The transpose of windows_of with a fill of 0: to [N, C, H, W] = shape.
Tensor sum_of_windows(const Tensor& windows, const Shape& shape, Pair stride, Pair padding, Pair dilation);

}  // namespace athanor
