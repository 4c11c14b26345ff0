#include "athanor/train/fit_image.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor {
namespace {

/// One channel: rows of brightness values, 0 to 255.
struct Plane {
  int64_t height, width;
  std::vector<float> pixels;

  float at(int64_t row, int64_t column) const { return pixels[static_cast<size_t>(row * width + column)]; }
};

/// One channel of a part of a picture, seen as a plane: a photograph is not copied.
struct Window {
  const uint8_t* first;  // of its pixel at the top left
  int64_t channels, stride;
  int64_t channel;  // -1: brightness, of all
  int64_t height, width;

  float at(int64_t row, int64_t column) const {
    const uint8_t* p = first + row * stride + column * channels;
    return channel < 0 ? 0.299F * p[0] + 0.587F * p[1] + 0.114F * p[2] : float(p[channel]);
  }
};

/// The channel of a picture that is the i-th of `wanted`: colours become grey, and grey all colours.
int64_t channel_for(const HostArray& picture, int64_t wanted, int64_t i) {
  const int64_t channels = picture.shape[2];
  return wanted == 1 && channels == 3 ? -1 : channels == 1 ? 0 : i;
}

/// The middle of a picture with the aspect ratio of [height, width].
Window middle(const HostArray& picture, int64_t channel, int64_t height, int64_t width) {
  const int64_t whole_height = picture.shape[0], whole_width = picture.shape[1];
  const int64_t rows = std::max<int64_t>(1, std::min(whole_height, whole_width * height / width));
  const int64_t columns = std::max<int64_t>(1, std::min(whole_width, whole_height * width / height));
  const int64_t channels = picture.shape[2], stride = whole_width * channels;
  const uint8_t* first = picture.as<uint8_t>().data() + (whole_height - rows) / 2 * stride +
                         (whole_width - columns) / 2 * channels;
  return {first, channels, stride, channel, rows, columns};
}

/// Rows scaled to `width` and the result transposed: done twice, it scales a plane.
template <class Source>
Plane scaled_and_transposed(const Source& plane, int64_t width) {
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
        sum += weights[static_cast<size_t>(i - first)] * plane.at(row, i);
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
  for (int64_t channel = 0; channel < spec.input[0]; ++channel) {
    const Window window = middle(picture, channel_for(picture, spec.input[0], channel), height, width);
    const Plane plane = scaled_and_transposed(scaled_and_transposed(window, width), height);
    const float mean = of_channel(spec.normalization.mean, static_cast<size_t>(channel)),
                stddev = of_channel(spec.normalization.stddev, static_cast<size_t>(channel));
    for (const float pixel : plane.pixels) *out++ = ((invert ? 255 - pixel : pixel) / 255 - mean) / stddev;
  }
  return result;
}

double border_brightness(const HostArray& picture) {
  const Window plane = middle(picture, channel_for(picture, 1, 0), picture.shape[0], picture.shape[1]);
  double sum = 0;
  int64_t count = 0;
  for (int64_t row = 0; row < plane.height; ++row)
    for (int64_t column = 0; column < plane.width; ++column)
      if (row == 0 || column == 0 || row == plane.height - 1 || column == plane.width - 1) {
        sum += plane.at(row, column);
        ++count;
      }
  return sum / static_cast<double>(count);
}

}  // namespace athanor
