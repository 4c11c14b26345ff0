// The elements of a convolution's images, gathered when a product needs them.
#pragma once
#include <algorithm>
#include <string>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {

/// Whether the image has all elements that results take: those of row i take rows i * step + first + t * tap,
/// for each tap t. `tile`: results are computed this many at a time, and those of the last tile may lie
/// outside.
bool gathers_inside(const OperandDesc& image, Pair taps, const Shape& out, Pair step, Pair first, Pair tap,
                    int64_t tile = 1);
/// The function image_at(image, start, y, x): an element, or 0 outside the image. `inside`: none is outside.
std::string image_at_text(const OperandDesc& image, std::string_view dtype, std::string_view index,
                          bool inside);

/// The elements that taps take from images: [taps of channels in, pixels]. Row i of the result takes row
/// i * step + first + tap * tap_step of the image with each tap.
struct Gather {
  OperandDesc image;
  Pair taps;
  Shape out;
  Pair step, first, tap_step;
  DType dtype;
  bool wide;

  int64_t count() const { return std::max<int64_t>(taps.height * taps.width, 1); }
  int64_t plane() const { return out[2] * out[3]; }
  std::string index() const { return wide ? "i64" : "i32"; }
  std::string along(const std::string& number, int axis) const {
    return strided(number, image.strides[static_cast<size_t>(axis)], wide);
  }
  // Where a pixel's taps begin, in rows and columns of its image.
  std::string y_of(const std::string& pixel) const {
    return plus(times(divided(pixel, out[3]), step.height), first.height);
  }
  std::string x_of(const std::string& pixel) const {
    return plus(times(remainder(pixel, out[3]), step.width), first.width);
  }
  // How far a tap is from there.
  std::string tap_y(const std::string& tap) const {
    return times(divided(tap, std::max<int64_t>(taps.width, 1)), tap_step.height);
  }
  std::string tap_x(const std::string& tap) const {
    return times(remainder(tap, std::max<int64_t>(taps.width, 1)), tap_step.width);
  }
  /// Where the image of a pixel and the channel of a tap begin.
  std::string start(const std::string& pixel, const std::string& tap) const {
    return plus(along(divided(pixel, plane()), 0), along(divided(tap, count()), 1));
  }

  /// image_at().
  std::string image_text() const;
  /// image_at(), and the function image_element(b, pixel, tap).
  std::string element_text() const;
};

/// A single item stages runs of pixels of a row. It computes the values of a pixel once for each tile, and
/// the values of a tap once for all pixels. `n`: pixels of all images.
void stage_images(const Gather& gather, int64_t n, GemmMatrices& matrices);
/// A single item computes the values of the taps once for each tile, and the values of a pixel once for all
/// taps. `n`: taps of all channels.
void stage_taps(const Gather& gather, int64_t n, GemmMatrices& matrices);

}  // namespace athanor::gpu
