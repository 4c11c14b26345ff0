#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "athanor/data/transforms.h"

namespace athanor::transforms {
namespace {

/// The source of a pixel: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5], in pixels from the
/// middle. As torchvision's _get_inverse_affine_matrix.
std::array<double, 6> inverse_matrix(const Affine& how, std::array<double, 2> center) {
  constexpr double degree = std::numbers::pi / 180;
  const double rotation = how.angle * degree, sx = how.shear[0] * degree, sy = how.shear[1] * degree;
  const double a = std::cos(rotation - sy) / std::cos(sy), b = -(a * std::tan(sx) + std::sin(rotation));
  const double c = std::sin(rotation - sy) / std::cos(sy), d = std::cos(rotation) - c * std::tan(sx);
  std::array<double, 6> m = {d / how.scale, -b / how.scale, 0, -c / how.scale, a / how.scale, 0};
  const double x = center[0] + how.translate[0], y = center[1] + how.translate[1];
  m[2] = center[0] - m[0] * x - m[1] * y;
  m[5] = center[1] - m[3] * x - m[4] * y;
  return m;
}

float bilinear_at(const Picture& picture, int64_t c, double x, double y) {
  const double left = std::floor(x), top = std::floor(y);
  const auto fx = static_cast<float>(x - left), fy = static_cast<float>(y - top);
  const auto pixel = [&](double row, double column) {
    if (row < 0 || column < 0 || row >= static_cast<double>(picture.height) ||
        column >= static_cast<double>(picture.width))
      return 0.0F;
    return picture.at(c, static_cast<int64_t>(row), static_cast<int64_t>(column));
  };
  return (1 - fy) * ((1 - fx) * pixel(top, left) + fx * pixel(top, left + 1)) +
         fy * ((1 - fx) * pixel(top + 1, left) + fx * pixel(top + 1, left + 1));
}

float nearest_at(const Picture& picture, int64_t c, double x, double y) {
  const double column = std::nearbyint(x), row = std::nearbyint(y);
  if (row < 0 || column < 0 || row >= static_cast<double>(picture.height) ||
      column >= static_cast<double>(picture.width))
    return 0;
  return picture.at(c, static_cast<int64_t>(row), static_cast<int64_t>(column));
}

/// The index that i stands for on an axis that is mirrored at its ends, without repeating them.
int64_t mirrored(int64_t i, int64_t size) {
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  i = std::abs(i) % period;
  return i < size ? i : period - i;
}

}  // namespace

Picture horizontal_flip(const Picture& picture) {
  Picture result = picture;
  for (int64_t row = 0; row < picture.channels * picture.height; ++row)
    std::reverse(result.pixels.begin() + row * picture.width,
                 result.pixels.begin() + (row + 1) * picture.width);
  return result;
}

Picture vertical_flip(const Picture& picture) {
  Picture result(picture.channels, picture.height, picture.width);
  for (int64_t c = 0; c < picture.channels; ++c)
    for (int64_t y = 0; y < picture.height; ++y)
      std::copy_n(picture.plane(c) + y * picture.width, picture.width,
                  result.plane(c) + (picture.height - 1 - y) * picture.width);
  return result;
}

Picture crop(const Picture& picture, int64_t top, int64_t left, int64_t height, int64_t width) {
  Picture result(picture.channels, height, width);
  const int64_t first = std::max<int64_t>(0, -left), end = std::min(width, picture.width - left);
  if (first >= end) return result;
  for (int64_t c = 0; c < picture.channels; ++c)
    for (int64_t y = std::max<int64_t>(0, -top); y < std::min(height, picture.height - top); ++y)
      std::copy_n(picture.plane(c) + (top + y) * picture.width + left + first, end - first,
                  result.plane(c) + y * width + first);
  return result;
}

Picture affine(const Picture& picture, const Affine& how, Interpolation interpolation) {
  const double width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
  const std::array<double, 2> center =
      how.around_corner ? std::array{-0.5 * width, -0.5 * height} : std::array{0.0, 0.0};
  const std::array<double, 6> m = inverse_matrix(how, center);
  Picture result(picture.channels, picture.height, picture.width);
  for (int64_t y = 0; y < picture.height; ++y) {
    const double from_middle_y = static_cast<double>(y) + 0.5 - 0.5 * height;
    for (int64_t x = 0; x < picture.width; ++x) {
      const double from_middle_x = static_cast<double>(x) + 0.5 - 0.5 * width;
      const double source_x = m[0] * from_middle_x + m[1] * from_middle_y + m[2] + 0.5 * width - 0.5;
      const double source_y = m[3] * from_middle_x + m[4] * from_middle_y + m[5] + 0.5 * height - 0.5;
      for (int64_t c = 0; c < picture.channels; ++c)
        result.at(c, y, x) = interpolation == Interpolation::bilinear
                                 ? bilinear_at(picture, c, source_x, source_y)
                                 : nearest_at(picture, c, source_x, source_y);
    }
  }
  return result;
}

Picture rotate(const Picture& picture, double angle, Interpolation interpolation) {
  return affine(picture, {.angle = -angle}, interpolation);
}

Picture gaussian_blur(const Picture& picture, int64_t kernel_size, double sigma) {
  const int64_t half = kernel_size / 2;
  std::vector<float> kernel;
  double total = 0;
  const auto value = [&](int64_t i) {
    const auto x = static_cast<double>(i - half);
    return std::exp(-x * x / (2 * sigma * sigma));
  };
  for (int64_t i = 0; i < kernel_size; ++i) total += value(i);
  for (int64_t i = 0; i < kernel_size; ++i) kernel.push_back(static_cast<float>(value(i) / total));

  Picture across(picture.channels, picture.height, picture.width), result = across;
  for (int64_t c = 0; c < picture.channels; ++c) {
    for (int64_t y = 0; y < picture.height; ++y)
      for (int64_t x = 0; x < picture.width; ++x)
        for (int64_t k = -half; k <= half; ++k)
          across.at(c, y, x) +=
              kernel[static_cast<size_t>(k + half)] * picture.at(c, y, mirrored(x + k, picture.width));
    for (int64_t y = 0; y < picture.height; ++y)
      for (int64_t k = -half; k <= half; ++k) {
        const float weight = kernel[static_cast<size_t>(k + half)];
        const float* row = across.plane(c) + mirrored(y + k, picture.height) * picture.width;
        float* out = result.plane(c) + y * picture.width;
        for (int64_t x = 0; x < picture.width; ++x) out[x] += weight * row[x];
      }
  }
  return result;
}

Picture erase(Picture picture, const Window& window) {
  for (int64_t c = 0; c < picture.channels; ++c)
    for (int64_t y = window.top; y < window.top + window.height; ++y)
      std::fill_n(picture.plane(c) + y * picture.width + window.left, window.width, 0.0F);
  return picture;
}

}  // namespace athanor::transforms
