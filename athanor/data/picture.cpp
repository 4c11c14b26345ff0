#include "athanor/data/picture.h"

#include <algorithm>
#include <cmath>

namespace athanor {
namespace {

/// The old pixels that make each new one of a row, and their weights.
struct Taps {
  struct Tap {
    int64_t first = 0, count = 0;
    size_t weights = 0;  // index of the first
  };
  std::vector<Tap> taps;
  std::vector<float> weights;
};

Taps taps_of(int64_t from, int64_t to) {
  Taps result;
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, ratio);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const auto weight = [&](int64_t j) {
      return std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach);
    };
    auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - reach)));
    auto end = std::min(from, static_cast<int64_t>(std::ceil(centre + reach)));
    while (first + 1 < end && weight(first) == 0) ++first;
    while (first + 1 < end && weight(end - 1) == 0) --end;
    double total = 0;
    for (int64_t j = first; j < end; ++j) total += weight(j);
    result.taps.push_back({first, end - first, result.weights.size()});
    for (int64_t j = first; j < end; ++j) result.weights.push_back(static_cast<float>(weight(j) / total));
  }
  return result;
}

/// Scales a row of bytes into `out`, one row for each channel of the image.
void scale_row(const uint8_t* row, int64_t channels, const Taps& taps, float* out, int64_t out_stride) {
  for (size_t x = 0; x < taps.taps.size(); ++x) {
    const auto& [first, count, at] = taps.taps[x];
    const float* weights = taps.weights.data() + at;
    const uint8_t* pixels = row + first * channels;
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < count; ++j) sum += weights[j] * static_cast<float>(pixels[j * channels + c]);
      out[c * out_stride + static_cast<int64_t>(x)] = sum / 255;
    }
  }
}

/// Turns red, green and blue into grey, in place: in the first of the three rows.
void grey_row(float* rows, int64_t width) {
  for (int64_t x = 0; x < width; ++x)
    rows[x] = 0.299F * rows[x] + 0.587F * rows[width + x] + 0.114F * rows[2 * width + x];
}

}  // namespace

Window middle_window(int64_t rows, int64_t columns, int64_t height, int64_t width) {
  Window window;
  window.height = std::max<int64_t>(1, std::min(rows, columns * height / width));
  window.width = std::max<int64_t>(1, std::min(columns, rows * width / height));
  window.top = (rows - window.height) / 2;
  window.left = (columns - window.width) / 2;
  return window;
}

Picture resample(const HostArray& picture, const Window& window, int64_t channels, int64_t height,
                 int64_t width) {
  const int64_t old_channels = picture.shape[2], stride = picture.shape[1] * old_channels;
  const uint8_t* first = picture.as<uint8_t>().data() + window.top * stride + window.left * old_channels;
  const Taps across = taps_of(window.width, width), down = taps_of(window.height, height);
  const bool to_grey = channels == 1 && old_channels == 3;
  const int64_t made = to_grey ? 1 : std::min(channels, old_channels);

  // Rows are scaled when a new row first needs them, and kept as long as one does.
  Picture result(channels, height, width);
  std::vector<float> row(static_cast<size_t>(old_channels * width));
  int64_t most = 0;
  for (const auto& tap : down.taps) most = std::max(most, tap.count);
  std::vector<float> kept(static_cast<size_t>(most * made * width));
  int64_t next = down.taps.front().first;
  for (int64_t y = 0; y < height; ++y) {
    const auto& [begin, count, at] = down.taps[static_cast<size_t>(y)];
    for (next = std::max(next, begin); next < begin + count; ++next) {
      scale_row(first + next * stride, old_channels, across, row.data(), width);
      if (to_grey) grey_row(row.data(), width);
      std::copy_n(row.data(), made * width, kept.data() + next % most * made * width);
    }
    for (int64_t j = 0; j < count; ++j) {
      const float weight = down.weights[at + static_cast<size_t>(j)];
      const float* source = kept.data() + (begin + j) % most * made * width;
      for (int64_t c = 0; c < made; ++c) {
        float* out = result.plane(c) + y * width;
        for (int64_t x = 0; x < width; ++x) out[x] += weight * source[c * width + x];
      }
    }
  }
  for (int64_t c = made; c < channels; ++c)
    std::copy_n(result.plane(0), result.plane_size(), result.plane(c));
  return result;
}

HostArray to_bytes(const Picture& picture) {
  HostArray result(DType::u8, {picture.height, picture.width, picture.channels});
  auto out = result.as<uint8_t>().begin();
  for (int64_t i = 0; i < picture.plane_size(); ++i)
    for (int64_t c = 0; c < picture.channels; ++c)
      *out++ = static_cast<uint8_t>(std::lround(255 * std::clamp(picture.plane(c)[i], 0.0F, 1.0F)));
  return result;
}

}  // namespace athanor
