// Two-dimensional convolution (cross-correlation, as usual in the field) and its transpose, of floats.
//
// All throw Error(shape) if ranks or extents do not fit together or the kernel is larger than the padded
// input, Error(value) for options out of range or if groups do not divide the channels, and Error(dtype).
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

/// A value for height and one for width; one number means both.
struct Pair {
  int64_t height, width;
  Pair(int64_t both) : height(both), width(both) {}
  Pair(int both) : Pair(int64_t{both}) {}
  Pair(int64_t h, int64_t w) : height(h), width(w) {}
  Ints ints() const { return {height, width}; }
};

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;  // zeros on both sides
  Pair dilation = 1;
  int64_t groups = 1;
};

/// x [N, C, H, W], weight [O, C/groups, KH, KW], bias [O] or {} -> [N, O, OH, OW] with
/// OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1.
Tensor conv2d(Operand x, Operand weight, const Tensor& bias = {}, const Conv2dOptions& options = {});

/// The gradients of conv2d, which are convolutions themselves.
/// dy [N, O, OH, OW], weight -> [N, C, H, W] = input_shape.
Tensor conv2d_input_grad(Operand dy, Operand weight, const Shape& input_shape,
                         const Conv2dOptions& options = {});
/// x, dy -> [O, C/groups, KH, KW] = weight_shape.
Tensor conv2d_weight_grad(Operand x, Operand dy, const Shape& weight_shape,
                          const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Pair stride = 1;
  Pair padding = 0;  // cut off the result on both sides
  Pair dilation = 1;
  int64_t groups = 1;
  Pair output_padding = 0;  // added to the result at the end; less than stride (or dilation)
};

/// x [N, C, H, W], weight [C, O/groups, KH, KW], bias [O] or {} -> [N, O, OH, OW] with
/// OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
Tensor conv_transpose2d(Operand x, Operand weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

}  // namespace athanor
