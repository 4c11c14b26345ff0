#include "athanor/data/mixing.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor {
namespace {

/// A random number from the Gamma distribution with the given shape and scale 1 (Marsaglia and Tsang 2000).
double random_gamma(double shape, RandomStream& random) {
  if (shape < 1) {
    const double power = random.uniform();
    return random_gamma(shape + 1, random) * std::pow(1 - power, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log1p(-random.uniform()) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

/// Calls f(image, the image before it) for all images, with both unchanged.
template <class F>
void with_one_before(HostArray& inputs, F f) {
  const auto values = inputs.as<float>();
  const auto stride = values.size() / static_cast<size_t>(inputs.shape[0]);
  std::vector<float> last(values.end() - static_cast<std::ptrdiff_t>(stride), values.end());
  for (size_t i = static_cast<size_t>(inputs.shape[0]); i-- > 0;)
    f(values.data() + i * stride, i > 0 ? values.data() + (i - 1) * stride : last.data(), stride);
}

}  // namespace

void mix_up(HostArray& inputs, double share) {
  const auto own = static_cast<float>(share);
  with_one_before(inputs, [own](float* picture, const float* before, size_t count) {
    for (size_t i = 0; i < count; ++i) picture[i] = own * picture[i] + (1 - own) * before[i];
  });
}

void cut_mix(HostArray& inputs, const Window& window) {
  const int64_t channels = inputs.shape[1], height = inputs.shape[2], width = inputs.shape[3];
  with_one_before(inputs, [&](float* picture, const float* before, size_t /*count*/) {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t y = window.top; y < window.top + window.height; ++y) {
        const int64_t at = (c * height + y) * width + window.left;
        std::copy_n(before + at, window.width, picture + at);
      }
  });
}

HostArray mixed_labels(const HostArray& labels, int64_t classes, double share) {
  const auto numbers = labels.as<int64_t>();
  const size_t count = numbers.size();
  HostArray result(DType::f32, {static_cast<int64_t>(count), classes});
  const auto out = result.as<float>();
  for (size_t i = 0; i < count; ++i) {
    float* row = out.data() + i * static_cast<size_t>(classes);
    row[numbers[i]] += static_cast<float>(share);
    row[numbers[(i + count - 1) % count]] += static_cast<float>(1 - share);
  }
  return result;
}

double random_beta(double alpha, RandomStream& random) {
  const double x = random_gamma(alpha, random), y = random_gamma(alpha, random);
  return x + y > 0 ? x / (x + y) : 0.5;
}

Window random_window(double share, int64_t height, int64_t width, RandomStream& random) {
  const int64_t x = random.below(width), y = random.below(height);
  const double half = 0.5 * std::sqrt(1 - share);
  const auto half_width = static_cast<int64_t>(half * static_cast<double>(width)),
             half_height = static_cast<int64_t>(half * static_cast<double>(height));
  const int64_t left = std::max<int64_t>(0, x - half_width), top = std::max<int64_t>(0, y - half_height);
  return {top, left, std::min(height, y + half_height) - top, std::min(width, x + half_width) - left};
}

}  // namespace athanor
