#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/data/transforms.h"

namespace athanor::transforms {
namespace {

float clamped(float value) { return std::clamp(value, 0.0F, 1.0F); }

template <class F>
Picture each_pixel(Picture picture, F f) {
  for (float& pixel : picture.pixels) pixel = f(pixel);
  return picture;
}

/// The brightness with torchvision's weights. For an image of one channel, that channel.
std::vector<float> brightness_of(const Picture& picture) {
  std::vector<float> grey(picture.plane(0), picture.plane(0) + picture.plane_size());
  if (picture.channels == 3)
    for (size_t i = 0; i < grey.size(); ++i)
      grey[i] = 0.2989F * grey[i] + 0.587F * picture.plane(1)[i] + 0.114F * picture.plane(2)[i];
  return grey;
}

/// Hue, saturation and value, each from 0 to 1, computed as in Pillow and torchvision.
std::array<float, 3> to_hsv(float r, float g, float b) {
  const float most = std::max({r, g, b}), range = most - std::min({r, g, b});
  if (range == 0) return {0, 0, most};
  const float rc = (most - r) / range, gc = (most - g) / range, bc = (most - b) / range;
  const float h = most == r ? bc - gc : most == g ? 2 + rc - bc : 4 + gc - rc;
  return {std::fmod(h / 6 + 1, 1.0F), range / most, most};
}

std::array<float, 3> to_rgb(float h, float s, float v) {
  const float sixth = std::floor(6 * h), f = 6 * h - sixth;
  const float p = clamped(v * (1 - s)), q = clamped(v * (1 - s * f)), t = clamped(v * (1 - s * (1 - f)));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

Picture adjust_brightness(Picture picture, double factor) {
  const auto f = static_cast<float>(factor);
  return each_pixel(std::move(picture), [f](float x) { return clamped(f * x); });
}

Picture adjust_contrast(Picture picture, double factor) {
  double sum = 0;
  for (const float grey : brightness_of(picture)) sum += grey;
  const auto f = static_cast<float>(factor);
  const auto rest = static_cast<float>((1 - factor) * sum / static_cast<double>(picture.plane_size()));
  return each_pixel(std::move(picture), [=](float x) { return clamped(f * x + rest); });
}

Picture adjust_saturation(Picture picture, double factor) {
  if (picture.channels == 1) return picture;
  const std::vector<float> grey = brightness_of(picture);
  const auto f = static_cast<float>(factor);
  for (int64_t c = 0; c < picture.channels; ++c)
    for (size_t i = 0; i < grey.size(); ++i)
      picture.plane(c)[i] = clamped(f * picture.plane(c)[i] + (1 - f) * grey[i]);
  return picture;
}

Picture adjust_sharpness(const Picture& picture, double factor) {
  const int64_t height = picture.height, width = picture.width;
  if (height <= 2 || width <= 2) return picture;
  Picture result = picture;
  const auto f = static_cast<float>(factor);
  for (int64_t c = 0; c < picture.channels; ++c)
    for (int64_t y = 1; y + 1 < height; ++y)
      for (int64_t x = 1; x + 1 < width; ++x) {
        float sum = 4 * picture.at(c, y, x);
        for (int64_t dy = -1; dy <= 1; ++dy)
          for (int64_t dx = -1; dx <= 1; ++dx) sum += picture.at(c, y + dy, x + dx);
        result.at(c, y, x) = f * picture.at(c, y, x) + (1 - f) * sum / 13;
      }
  return each_pixel(std::move(result), clamped);
}

Picture adjust_hue(Picture picture, double shift) {
  if (picture.channels == 1) return picture;
  for (int64_t i = 0; i < picture.plane_size(); ++i) {
    const auto [h, s, v] = to_hsv(picture.plane(0)[i], picture.plane(1)[i], picture.plane(2)[i]);
    float turned = h + static_cast<float>(shift);
    turned -= std::floor(turned);
    const auto rgb = to_rgb(turned, s, v);
    for (size_t c = 0; c < 3; ++c) picture.plane(static_cast<int64_t>(c))[i] = rgb[c];
  }
  return picture;
}

Picture grayscale(Picture picture) {
  const std::vector<float> grey = brightness_of(picture);
  for (int64_t c = 0; c < picture.channels; ++c) std::ranges::copy(grey, picture.plane(c));
  return picture;
}

Picture posterize(Picture picture, int bits) {
  const auto levels = static_cast<float>(1 << bits);
  return each_pixel(std::move(picture), [levels](float x) {
    return std::clamp(std::floor(x * levels), 0.0F, levels - 1) * (1 / levels);
  });
}

Picture solarize(Picture picture, double threshold) {
  const auto t = static_cast<float>(threshold);
  return each_pixel(std::move(picture), [t](float x) { return x >= t ? 1 - x : x; });
}

Picture invert(Picture picture) {
  return each_pixel(std::move(picture), [](float x) { return 1 - x; });
}

Picture autocontrast(Picture picture) {
  for (int64_t c = 0; c < picture.channels; ++c) {
    float* plane = picture.plane(c);
    const auto [least, most] = std::minmax_element(plane, plane + picture.plane_size());
    const float low = *least, range = *most - *least;
    if (range == 0) continue;
    for (int64_t i = 0; i < picture.plane_size(); ++i) plane[i] = clamped((plane[i] - low) / range);
  }
  return picture;
}

Picture equalize(Picture picture) {
  for (int64_t c = 0; c < picture.channels; ++c) {
    float* plane = picture.plane(c);
    const auto bin = [](float x) { return static_cast<size_t>(std::clamp(x * 255.999F, 0.0F, 255.0F)); };
    std::array<int64_t, 256> histogram{};
    for (int64_t i = 0; i < picture.plane_size(); ++i) ++histogram[bin(plane[i])];
    size_t last = 255;
    while (histogram[last] == 0) --last;
    const int64_t step = (picture.plane_size() - histogram[last]) / 255;
    std::array<float, 256> table{};
    int64_t sum = 0;
    for (size_t i = 0; i < 256; ++i) {
      const int64_t level =
          step == 0 ? static_cast<int64_t>(i) : std::min<int64_t>(255, (sum + step / 2) / step);
      table[i] = static_cast<float>(level) / 255;
      sum += histogram[i];
    }
    for (int64_t i = 0; i < picture.plane_size(); ++i) plane[i] = table[bin(plane[i])];
  }
  return picture;
}

}  // namespace athanor::transforms
