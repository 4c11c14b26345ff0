// Transforms of the images of a batch, each with parameters of its own, as part of a graph.
//
// Images x are floats [B, C, H, W] from 0 to 1, parameters [B]. Results equal those of
// torchvision.transforms.v2.functional, and of athanor/data/transforms.h, to rounding. All throw
// Error(shape).
#pragma once
#include <array>

#include "athanor/graph/tensor.h"

namespace athanor::nn::transforms {

/// Mirrors the images for which `condition` (bool) holds along an axis: 3 exchanges left and right.
Tensor flip_where(const Tensor& x, const Tensor& condition, int axis);
/// Shifts each image: the result begins at its row `top` and column `left` (i64, from -reach to reach) and is
/// black outside the image.
Tensor shift(const Tensor& x, const Tensor& top, const Tensor& left, int64_t reach);

struct Affine {
  Tensor angle;                     // degrees, clockwise
  std::array<Tensor, 2> translate;  // pixels to the right and down
  Tensor scale;
  Tensor shear;  // degrees, along x
};
/// Turns, shifts, scales and shears each image around its middle, with linear interpolation; black outside.
Tensor affine(const Tensor& x, const Affine& how);

// A factor of 1 changes nothing.
Tensor adjust_brightness(const Tensor& x, const Tensor& factor);
Tensor adjust_contrast(const Tensor& x, const Tensor& factor);
// For images of one channel, which have no colour, these return x.
Tensor adjust_saturation(const Tensor& x, const Tensor& factor);
/// Turns the colour wheel by `shift`, from -0.5 to 0.5.
Tensor adjust_hue(const Tensor& x, const Tensor& shift);
/// All channels of the images for which `condition` holds become the brightness.
Tensor grayscale_where(const Tensor& x, const Tensor& condition);

/// Blurs by a Gaussian of `sigma` pixels, cut to 2 ceil(2 sigma) + 1 pixels; images are mirrored at the
/// edges. `most_sigma`: no sigma is larger; the work grows with it.
Tensor gaussian_blur(const Tensor& x, const Tensor& sigma, double most_sigma);
/// Rows [top, top + height) and columns [left, left + width) become black.
Tensor erase(const Tensor& x, const Tensor& top, const Tensor& left, const Tensor& height,
             const Tensor& width);

}  // namespace athanor::nn::transforms
