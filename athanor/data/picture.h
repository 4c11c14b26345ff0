// An image that is being processed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "athanor/graph/host_array.h"

namespace athanor {

/// Planes of brightness, 0 to 1: [channels, height, width].
struct Picture {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> pixels;

  Picture() = default;
  /// A black image.
  Picture(int64_t c, int64_t h, int64_t w)
      : channels(c), height(h), width(w), pixels(static_cast<size_t>(c * h * w)) {}

  int64_t plane_size() const { return height * width; }
  float* plane(int64_t c) { return pixels.data() + c * plane_size(); }
  const float* plane(int64_t c) const { return pixels.data() + c * plane_size(); }
  float& at(int64_t c, int64_t y, int64_t x) { return plane(c)[y * width + x]; }
  float at(int64_t c, int64_t y, int64_t x) const { return plane(c)[y * width + x]; }
};

/// A part of an image.
struct Window {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Window&) const = default;
};

/// The largest part around the middle of an image of `rows` x `columns` that has the aspect ratio of
/// `height` to `width`.
Window middle_window(int64_t rows, int64_t columns, int64_t height, int64_t width);

/// A part of `picture`, u8 [height, width, 1 or 3], scaled to `height` x `width`. Each new pixel is a mean,
/// weighted by distance, of the pixels it covers, as in Pillow's BILINEAR and torchvision's antialias = True.
/// Colours become grey (ITU-R BT.601), or grey three equal channels, if `channels` asks for it.
Picture resample(const HostArray& picture, const Window& window, int64_t channels, int64_t height,
                 int64_t width);

/// The image as bytes [height, width, channels], rounded; values below 0 or above 1 are clipped.
HostArray to_bytes(const Picture& picture);

}  // namespace athanor
