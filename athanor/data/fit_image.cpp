#include "athanor/data/fit_image.h"

#include <cmath>

#include "athanor/data/picture.h"

namespace athanor {
namespace {

float of_channel(const std::vector<float>& values, size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

void normalize(const Picture& picture, const Normalization& normalization, float* out) {
  for (int64_t c = 0; c < picture.channels; ++c) {
    const float mean = of_channel(normalization.mean, static_cast<size_t>(c)),
                stddev = of_channel(normalization.stddev, static_cast<size_t>(c));
    const float* plane = picture.plane(c);
    for (int64_t i = 0; i < picture.plane_size(); ++i) *out++ = (plane[i] - mean) / stddev;
  }
}

HostArray fit_image(const HostArray& picture, const ExampleSpec& spec, bool invert) {
  const int64_t height = spec.input[1], width = spec.input[2];
  Picture made = resample(picture, middle_window(picture.shape[0], picture.shape[1], height, width),
                          spec.input[0], height, width);
  if (invert)
    for (float& pixel : made.pixels) pixel = 1 - pixel;
  HostArray result(DType::f32, spec.input);
  normalize(made, spec.normalization, result.as<float>().data());
  return result;
}

double border_brightness(const HostArray& picture) {
  const int64_t height = picture.shape[0], width = picture.shape[1], channels = picture.shape[2];
  const auto pixels = picture.as<uint8_t>();
  double sum = 0;
  int64_t count = 0;
  for (int64_t y = 0; y < height; ++y) {
    const bool whole_row = y == 0 || y == height - 1;
    for (int64_t x = 0; x < width; x += whole_row || width == 1 ? 1 : width - 1) {
      const uint8_t* p = &pixels[static_cast<size_t>((y * width + x) * channels)];
      sum += channels == 1 ? p[0] : 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

}  // namespace athanor
