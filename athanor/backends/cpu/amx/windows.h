// The windows of a convolution, as AMX's kernels read them from images with channels in blocks of 16.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "athanor/graph/shape.h"
#include "athanor/ops/conv.h"

namespace athanor::cpu {

/// The windows around each pixel of a convolution's result. A window's pixels are its taps. The image is
/// [N, C / 16, H, W, 16], and has fewer than 2^31 elements.
class Windows {
 public:
  static constexpr int64_t block = 16;

  /// From an image [N, C, H, W] to a result [N, O, OH, OW].
  Windows(const Shape& image, const Shape& result, Pair taps, Pair stride, Pair dilation, Pair padding);

  int64_t count() const { return batch_ * of_image_; }
  int64_t of_image() const { return of_image_; }
  int64_t channels() const { return channels_; }
  /// From a block of channels to the next one, in elements.
  int64_t plane() const { return height_ * width_ * block; }

  /// A tap of 32 windows: the offsets of its channels 0 to 15 in the image, and whether it is in the image
  /// (bit i: of window i).
  struct Taps {
    alignas(64) int32_t offset[32];
    uint32_t inside;
  };
  /// Of the windows from `first` on, of which `some` exist.
  void find(int64_t first, int64_t some, int64_t tap, Taps& to) const;

 private:
  // The first tap of the windows of one image, and of 31 windows behind them, whose image is further on.
  struct Starts {
    std::vector<int32_t> row, column, image;
  };
  int64_t batch_, channels_, height_, width_, of_image_;
  Pair taps_, dilation_;
  std::shared_ptr<const Starts> starts_;
};

}  // namespace athanor::cpu
