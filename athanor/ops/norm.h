// Normalisation, of floats. Statistics of f16 and bf16 are computed in f32, in one pass; others in two, the
// mean first. Results have the shape of x.
//
// All throw Error(shape) if scale, shift or statistics do not fit x, and Error(dtype).
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

/// (x - mean) / sqrt(variance + eps), both over `axes` (variance with correction 0).
Tensor normalize(Operand x, const Ints& axes, double eps = 1e-5);

/// For training: normalises each channel of x [N, C, ...] by the batch's own statistics, multiplies by scale
/// [C] and adds shift [C]; either may be {}. The caller keeps running statistics: moments(x, all axes but 1)
/// and this share their work. Ioffe, Szegedy (2015).
Tensor batch_norm(Operand x, const Tensor& scale = {}, const Tensor& shift = {}, double eps = 1e-5);
/// For evaluation: the same with given statistics, mean [C] and var [C].
Tensor batch_norm(Operand x, const Tensor& scale, const Tensor& shift, const Tensor& mean, const Tensor& var,
                  double eps = 1e-5);
/// Normalises over the last `axes` axes; scale and shift have the shape of these axes, or are {}. Ba, Kiros,
/// Hinton (2016).
Tensor layer_norm(Operand x, int axes, const Tensor& scale = {}, const Tensor& shift = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) over the last axis, times scale [D], where D is its extent; {}: no scale. Zhang,
/// Sennrich (2019).
Tensor rms_norm(Operand x, const Tensor& scale = {}, double eps = 1e-6);
/// Normalises each of `groups` groups of channels of x [N, C, ...]; scale [C], shift [C] or {}. Throws
/// Error(value) if the groups do not divide the channels. Wu, He (2018).
Tensor group_norm(Operand x, int64_t groups, const Tensor& scale = {}, const Tensor& shift = {},
                  double eps = 1e-5);

}  // namespace athanor
