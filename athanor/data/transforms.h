// Transforms of images, given their parameters: as torchvision.transforms.v2.functional applies them to f32
// images from 0 to 1, up to rounding. augmentation.h chooses the parameters at random.
#pragma once
#include <array>

#include "athanor/data/picture.h"

namespace athanor::transforms {

Picture horizontal_flip(const Picture& picture);
Picture vertical_flip(const Picture& picture);
/// The part that begins at row `top` and column `left`; black outside the image.
Picture crop(const Picture& picture, int64_t top, int64_t left, int64_t height, int64_t width);

enum class Interpolation { nearest, bilinear };

struct Affine {
  double angle = 0;                          // degrees, clockwise
  std::array<double, 2> translate = {0, 0};  // pixels to the right and down
  double scale = 1;
  std::array<double, 2> shear = {0, 0};  // degrees
  /// The point that stays in place: the upper left corner or, by default, the image's middle.
  bool around_corner = false;
};
/// The image turned, shifted, scaled and sheared; black outside the old image.
Picture affine(const Picture& picture, const Affine& how, Interpolation interpolation);
/// The image turned by degrees, counter-clockwise, around the middle.
Picture rotate(const Picture& picture, double angle, Interpolation interpolation);

/// A Gaussian of `sigma` pixels, cut to kernel_size x kernel_size (odd), mirrored at the edges.
Picture gaussian_blur(const Picture& picture, int64_t kernel_size, double sigma);
/// The window becomes black.
Picture erase(Picture picture, const Window& window);

// A factor of 1 changes nothing.
Picture adjust_brightness(Picture picture, double factor);
Picture adjust_contrast(Picture picture, double factor);
Picture adjust_saturation(Picture picture, double factor);
Picture adjust_sharpness(const Picture& picture, double factor);
/// Turns the colour wheel by `shift`, from -0.5 to 0.5.
Picture adjust_hue(Picture picture, double shift);
/// All channels become the brightness.
Picture grayscale(Picture picture);

Picture posterize(Picture picture, int bits);
Picture solarize(Picture picture, double threshold);
Picture invert(Picture picture);
/// Each channel is stretched to the whole range.
Picture autocontrast(Picture picture);
/// Each channel's histogram is made even.
Picture equalize(Picture picture);

}  // namespace athanor::transforms
