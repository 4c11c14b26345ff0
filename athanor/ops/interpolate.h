// Changing the size of images, signals and volumes.
#pragma once
#include <cstdint>

#include "athanor/graph/tensor.h"

namespace athanor {

enum class Interpolation : uint8_t {
  nearest,        // the element at floor(i * in / out)
  nearest_exact,  // the element whose centre is nearest: floor((i + 1/2) * in / out)
  linear,         // along each axis: bilinear for [N, C, H, W], trilinear for [N, C, D, H, W]
  cubic,          // along each axis: bicubic for [N, C, H, W]. Keys (1981) with a = -3/4; -1/2 with antialias
};

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  /// Whether the centres of the first and last elements of x and of the result coincide; if not, their outer
  /// edges do. For linear and cubic.
  bool align_corners = false;
  /// Whether an axis that becomes shorter is smoothed, so that no element is skipped. For linear and cubic;
  /// not with align_corners.
  bool antialias = false;
};

/// Resizes floats x [N, C, ...], with one to three axes after the channels, to [N, C, size...]. Outside of x,
/// its border elements are repeated. Positions are computed from the extents alone, as in PyTorch's
/// interpolate(x, size=...).
///
/// Throws Error(shape) if `size` does not fit x, Error(value) for an extent below 1 or options that the mode
/// does not have, and Error(dtype).
Tensor interpolate(Operand x, const Ints& size, const InterpolateOptions& options = {});

}  // namespace athanor
