// Convolution (cross-correlation, as usual in the field) of signals, images and volumes, and its transpose,
// of floats.
//
// All functions throw Error(shape) if ranks or extents do not fit or the kernel is larger than the padded
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

/// The same for volumes.
struct Triple {
  int64_t depth, height, width;
  Triple(int64_t all) : depth(all), height(all), width(all) {}
  Triple(int all) : Triple(int64_t{all}) {}
  Triple(int64_t d, int64_t h, int64_t w) : depth(d), height(h), width(w) {}
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
  Pair padding = 0;  // removed from the result on both sides
  Pair dilation = 1;
  int64_t groups = 1;
  Pair output_padding = 0;  // added to the result at the end; less than stride (or dilation)
};

/// x [N, C, H, W], weight [C, O/groups, KH, KW], bias [O] or {} -> [N, O, OH, OW] with
/// OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
Tensor conv_transpose2d(Operand x, Operand weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// x [N, C, L], weight [O, C/groups, K], bias [O] or {} -> [N, O, OL], as conv2d along one axis.
Tensor conv1d(Operand x, Operand weight, const Tensor& bias = {}, const Conv1dOptions& options = {});

struct Conv3dOptions {
  Triple stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};
/// x [N, C, D, H, W], weight [O, C/groups, KD, KH, KW], bias [O] or {} -> [N, O, OD, OH, OW], as conv2d along
/// three axes. It is computed as one conv2d in which the KD slices under the kernel are additional channels.
Tensor conv3d(Operand x, Operand weight, const Tensor& bias = {}, const Conv3dOptions& options = {});

struct UnfoldOptions {
  Pair stride = 1, padding = 0, dilation = 1;  // as in conv2d
};
/// The windows of x [N, C, H, W] as columns [N, C KH KW, OH OW], which conv2d multiplies by its weight.
/// PyTorch's unfold, also called im2col.
Tensor unfold2d(Operand x, Pair kernel, const UnfoldOptions& options = {});
/// Its transpose: columns [N, C KH KW, OH OW] to [N, C, size.height, size.width], with overlaps summed.
/// PyTorch's fold, also called col2im.
Tensor fold2d(Operand columns, Pair size, Pair kernel, const UnfoldOptions& options = {});

}  // namespace athanor
