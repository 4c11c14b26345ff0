#include "athanor/data/auto_augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "athanor/data/transforms.h"

namespace athanor {
namespace {

namespace tf = transforms;

constexpr int strengths = 31;

bool is_signed(std::string_view name) {
  for (const char* unsigned_one : {"Identity", "Posterize", "Solarize", "AutoContrast", "Equalize"})
    if (name == unsigned_one) return false;
  return true;
}

Picture random_operation(const Picture& picture, int bin, bool wide, RandomStream& random) {
  const auto& names = auto_operations();
  const std::string_view name = names[static_cast<size_t>(random.below(static_cast<int64_t>(names.size())))];
  double magnitude = auto_magnitude(name, bin >= 0 ? bin : static_cast<int>(random.below(strengths)), wide,
                                    picture.height, picture.width);
  if (is_signed(name) && random.chance(0.5)) magnitude = -magnitude;
  return auto_operation(picture, name, magnitude);
}

}  // namespace

const std::vector<std::string_view>& auto_operations() {
  static const std::vector<std::string_view> names = {
      "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
      "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
  return names;
}

double auto_magnitude(std::string_view name, int bin, bool wide, int64_t height, int64_t width) {
  const double share = static_cast<double>(bin) / (strengths - 1);
  if (name == "ShearX" || name == "ShearY") return share * (wide ? 0.99 : 0.3);
  if (name == "TranslateX") return share * (wide ? 32 : 150.0 / 331 * static_cast<double>(width));
  if (name == "TranslateY") return share * (wide ? 32 : 150.0 / 331 * static_cast<double>(height));
  if (name == "Rotate") return share * (wide ? 135 : 30);
  if (name == "Posterize") return std::nearbyint(8 - share * (wide ? 6 : 4));
  if (name == "Solarize") return 1 - share;
  if (name == "Brightness" || name == "Color" || name == "Contrast" || name == "Sharpness")
    return share * (wide ? 0.99 : 0.9);
  return 0;
}

Picture auto_operation(const Picture& picture, std::string_view name, double magnitude) {
  constexpr auto nearest = tf::Interpolation::nearest;
  const double degrees = std::atan(magnitude) * 180 / std::numbers::pi;
  if (name == "ShearX") return tf::affine(picture, {.shear = {degrees, 0}, .around_corner = true}, nearest);
  if (name == "ShearY") return tf::affine(picture, {.shear = {0, degrees}, .around_corner = true}, nearest);
  if (name == "TranslateX") return tf::affine(picture, {.translate = {std::trunc(magnitude), 0}}, nearest);
  if (name == "TranslateY") return tf::affine(picture, {.translate = {0, std::trunc(magnitude)}}, nearest);
  if (name == "Rotate") return tf::rotate(picture, magnitude, nearest);
  if (name == "Brightness") return tf::adjust_brightness(picture, 1 + magnitude);
  if (name == "Color") return tf::adjust_saturation(picture, 1 + magnitude);
  if (name == "Contrast") return tf::adjust_contrast(picture, 1 + magnitude);
  if (name == "Sharpness") return tf::adjust_sharpness(picture, 1 + magnitude);
  if (name == "Posterize") return tf::posterize(picture, static_cast<int>(magnitude));
  if (name == "Solarize") return tf::solarize(picture, magnitude);
  if (name == "AutoContrast") return tf::autocontrast(picture);
  if (name == "Equalize") return tf::equalize(picture);
  return picture;  // Identity
}

Picture rand_augment_step(const Picture& picture, int magnitude, RandomStream& random) {
  return random_operation(picture, magnitude, false, random);
}

Picture trivial_augment(const Picture& picture, RandomStream& random) {
  return random_operation(picture, -1, true, random);
}

}  // namespace athanor
