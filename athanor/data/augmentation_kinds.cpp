#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "athanor/data/augmentation.h"
#include "athanor/data/auto_augment.h"
#include "athanor/data/transforms.h"

namespace athanor {
namespace {

namespace tf = transforms;
using Values = std::vector<double>;
using tf::Interpolation;

// This value of `padding` stands for an eighth of the longer side.
constexpr double eighth = 0;

Picture random_crop(const Picture& picture, const Values& values, RandomStream& random) {
  const int64_t padding =
      values[0] == eighth ? std::max(picture.height, picture.width) / 8 : static_cast<int64_t>(values[0]);
  const int64_t top = random.below(2 * padding + 1) - padding, left = random.below(2 * padding + 1) - padding;
  return tf::crop(picture, top, left, picture.height, picture.width);
}

Picture random_flip(const Picture& picture, const Values& values, RandomStream& random) {
  return random.chance(values[0]) ? tf::horizontal_flip(picture) : picture;
}

Picture random_vertical_flip(const Picture& picture, const Values& values, RandomStream& random) {
  return random.chance(values[0]) ? tf::vertical_flip(picture) : picture;
}

template <Interpolation interpolation>
Picture random_rotation(const Picture& picture, const Values& values, RandomStream& random) {
  return tf::rotate(picture, random.between(-values[0], values[0]), interpolation);
}

template <Interpolation interpolation>
Picture random_affine(const Picture& picture, const Values& values, RandomStream& random) {
  tf::Affine how;
  how.angle = random.between(-values[0], values[0]);
  const double x = values[1] * static_cast<double>(picture.width),
               y = values[1] * static_cast<double>(picture.height);
  how.translate = {std::round(random.between(-x, x)), 0};
  how.translate[1] = std::round(random.between(-y, y));
  how.scale = random.between(1 - values[2], 1 + values[2]);
  how.shear[0] = random.between(-values[3], values[3]);
  return tf::affine(picture, how, interpolation);
}

Picture color_jitter(const Picture& picture, const Values& values, RandomStream& random) {
  std::array<int, 4> order{};
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  const auto factor = [&](double reach) { return random.between(std::max(0.0, 1 - reach), 1 + reach); };
  const double brightness = factor(values[0]), contrast = factor(values[1]), saturation = factor(values[2]);
  const double hue = random.between(-values[3], values[3]);
  Picture result = picture;
  for (const int which : order) {
    if (which == 0 && values[0] > 0) result = tf::adjust_brightness(std::move(result), brightness);
    if (which == 1 && values[1] > 0) result = tf::adjust_contrast(std::move(result), contrast);
    if (which == 2 && values[2] > 0) result = tf::adjust_saturation(std::move(result), saturation);
    if (which == 3 && values[3] > 0) result = tf::adjust_hue(std::move(result), hue);
  }
  return result;
}

Picture random_grayscale(const Picture& picture, const Values& values, RandomStream& random) {
  return random.chance(values[0]) ? tf::grayscale(picture) : picture;
}

Picture random_blur(const Picture& picture, const Values& values, RandomStream& random) {
  const bool blurred = random.chance(values[0]);
  const double sigma = random.between(0.1, values[1]);
  const auto kernel = 2 * static_cast<int64_t>(std::ceil(2 * sigma)) + 1;  // beyond, the Gaussian is small
  return blurred ? tf::gaussian_blur(picture, kernel, sigma) : picture;
}

Picture random_erasing(const Picture& picture, const Values& values, RandomStream& random) {
  if (!random.chance(values[0])) return picture;
  const auto area = static_cast<double>(picture.plane_size());
  for (int tries = 0; tries < 10; ++tries) {
    const double erased = area * random.between(0.02, 0.33);
    const double ratio = std::exp(random.between(std::log(0.3), std::log(3.3)));
    const auto height = std::lround(std::sqrt(erased * ratio)),
               width = std::lround(std::sqrt(erased / ratio));
    if (height >= picture.height || width >= picture.width) continue;
    const int64_t top = random.below(picture.height - height + 1);
    return tf::erase(picture, {top, random.below(picture.width - width + 1), height, width});
  }
  return picture;
}

Picture rand_augment(const Picture& picture, const Values& values, RandomStream& random) {
  Picture result = picture;
  for (int i = 0; i < static_cast<int>(values[0]); ++i)
    result = rand_augment_step(result, static_cast<int>(values[1]), random);
  return result;
}

Picture trivial(const Picture& picture, const Values& /*values*/, RandomStream& random) {
  return trivial_augment(picture, random);
}

}  // namespace

const std::vector<AugmentationKind>& augmentation_kinds() {
  static const std::vector<AugmentationKind> kinds = {
      {"crop",
       "a part of the image with PADDING black pixels around",
       {{"padding", eighth, 0, 512}},
       random_crop,
       random_crop},
      {"resized-crop",
       "a part of the stored image, from LEAST of its area on, of a shape from 3:4 to 4:3, scaled",
       {{"least", 0.08, 0.001, 1}},
       nullptr},
      {"flip", "left and right exchanged", {{"p", 0.5, 0, 1}}, random_flip, random_flip},
      {"vflip", "top and bottom exchanged", {{"p", 0.5, 0, 1}}, random_vertical_flip, random_vertical_flip},
      {"rotate",
       "turned by up to DEGREES",
       {{"degrees", 15, 0, 180}},
       random_rotation<Interpolation::bilinear>,
       random_rotation<Interpolation::nearest>},
      {"affine",
       "turned by up to DEGREES, shifted and scaled by up to these shares, sheared by up to SHEAR degrees",
       {{"degrees", 10, 0, 180}, {"shift", 0.1, 0, 1}, {"scale", 0.1, 0, 0.9}, {"shear", 10, 0, 80}},
       random_affine<Interpolation::bilinear>,
       random_affine<Interpolation::nearest>},
      {"jitter",
       "brightness, contrast, saturation and hue, each by up to these shares",
       {{"brightness", 0.4, 0, 10},
        {"contrast", 0.4, 0, 10},
        {"saturation", 0.4, 0, 10},
        {"hue", 0.1, 0, 0.5}},
       color_jitter},
      {"grayscale", "without colour", {{"p", 0.1, 0, 1}}, random_grayscale},
      {"blur",
       "blurred by a Gaussian of 0.1 to SIGMA pixels",
       {{"p", 0.5, 0, 1}, {"sigma", 2, 0.1, 50}},
       random_blur},
      {"erase", "a rectangle of 2 to 33 % made black", {{"p", 0.25, 0, 1}}, random_erasing},
      {"rand",
       "RandAugment: OPERATIONS of 14, of strength MAGNITUDE",
       {{"operations", 2, 1, 20}, {"magnitude", 9, 0, 30}},
       rand_augment},
      {"trivial", "TrivialAugment Wide: one of 14 operations of any strength", {}, trivial},
      {"mixup",
       "images of a batch are added, with a share by Beta(ALPHA, ALPHA)",
       {{"alpha", 0.2, 0.01, 100}},
       nullptr},
      {"cutmix",
       "a rectangle is another image's, with a share by Beta(ALPHA, ALPHA)",
       {{"alpha", 1, 0.01, 100}},
       nullptr},
  };
  return kinds;
}

}  // namespace athanor
