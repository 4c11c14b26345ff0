#include "athanor/train/fit_image.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace athanor {
namespace {

/// One channel: rows of brightness values, 0 to 255.
struct Plane {
  int64_t height, width;
  std::vector<float> pixels;
};

std::vector<Plane> planes_of(const HostArray& picture, int64_t wanted) {
  const int64_t height = picture.shape[0], width = picture.shape[1], channels = picture.shape[2];
  const auto bytes = picture.as<uint8_t>();
  const auto plane = [&](const std::function<float(const uint8_t*)>& value) {
    Plane result{height, width, {}};
    for (int64_t i = 0; i < height * width; ++i)
      result.pixels.push_back(value(&bytes[static_cast<size_t>(i * channels)]));
    return result;
  };
  if (wanted == 1 && channels == 3)
    return {plane([](const uint8_t* p) { return 0.299F * p[0] + 0.587F * p[1] + 0.114F * p[2]; })};
  std::vector<Plane> planes;
  for (int64_t c = 0; c < wanted; ++c)
    planes.push_back(plane([=](const uint8_t* p) { return float(p[channels == 1 ? 0 : c]); }));
  return planes;
}

/// The middle of the plane with the aspect ratio of [height, width].
Plane cut(const Plane& plane, int64_t height, int64_t width) {
  const int64_t rows = std::max<int64_t>(1, std::min(plane.height, plane.width * height / width));
  const int64_t columns = std::max<int64_t>(1, std::min(plane.width, plane.height * width / height));
  const int64_t top = (plane.height - rows) / 2, left = (plane.width - columns) / 2;
  Plane result{rows, columns, {}};
  for (int64_t row = top; row < top + rows; ++row) {
    const auto first = plane.pixels.begin() + row * plane.width + left;
    result.pixels.insert(result.pixels.end(), first, first + columns);
  }
  return result;
}

/// Rows scaled to `width` and the result transposed: done twice, it scales a plane.
Plane scaled_and_transposed(const Plane& plane, int64_t width) {
  const double ratio = static_cast<double>(plane.width) / static_cast<double>(width);
  const double reach = std::max(1.0, ratio);
  Plane result{width, plane.height, std::vector<float>(static_cast<size_t>(width * plane.height))};
  for (int64_t x = 0; x < width; ++x) {
    const double centre = (static_cast<double>(x) + 0.5) * ratio;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - reach)));
    const auto last = std::min(plane.width, static_cast<int64_t>(std::ceil(centre + reach)));
    std::vector<double> weights;
    double total = 0;
    for (int64_t i = first; i < last; ++i) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach));
      total += weights.back();
    }
    for (int64_t row = 0; row < plane.height; ++row) {
      double sum = 0;
      for (int64_t i = first; i < last; ++i)
        sum += weights[static_cast<size_t>(i - first)] *
               plane.pixels[static_cast<size_t>(row * plane.width + i)];
      result.pixels[static_cast<size_t>(x * plane.height + row)] = static_cast<float>(sum / total);
    }
  }
  return result;
}

float of_channel(const std::vector<float>& values, size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

HostArray fit_image(const HostArray& picture, const ExampleSpec& spec, bool invert) {
  const int64_t height = spec.input[1], width = spec.input[2];
  HostArray result(DType::f32, spec.input);
  auto out = result.as<float>().begin();
  const std::vector<Plane> planes = planes_of(picture, spec.input[0]);
  for (size_t channel = 0; channel < planes.size(); ++channel) {
    const Plane plane =
        scaled_and_transposed(scaled_and_transposed(cut(planes[channel], height, width), width), height);
    const float mean = of_channel(spec.normalization.mean, channel),
                stddev = of_channel(spec.normalization.stddev, channel);
    for (const float pixel : plane.pixels) *out++ = ((invert ? 255 - pixel : pixel) / 255 - mean) / stddev;
  }
  return result;
}

double border_brightness(const HostArray& picture) {
  const Plane plane = planes_of(picture, 1).front();
  double sum = 0;
  int64_t count = 0;
  for (int64_t row = 0; row < plane.height; ++row)
    for (int64_t column = 0; column < plane.width; ++column)
      if (row == 0 || column == 0 || row == plane.height - 1 || column == plane.width - 1) {
        sum += plane.pixels[static_cast<size_t>(row * plane.width + column)];
        ++count;
      }
  return sum / static_cast<double>(count);
}

}  // namespace athanor
