// How a convolution is cut into tiles of 4 x 4 results.
#pragma once
#include <algorithm>

#include "athanor/backends/cpu/parallel.h"
#include "athanor/backends/cpu/winograd/kernels.h"
#include "athanor/base/ceil_div.h"
#include "athanor/graph/shape.h"
#include "athanor/ops/conv.h"

namespace athanor::cpu::winograd {

/// The tiles of a convolution of an image [N, C, H, W] to a result [N, O, OH, OW], which both have blocked
/// channels.
struct Tiles {
  Plane image, result;
  int64_t channels, results, of_row, of_image, count;
  int64_t top, left;  // padding

  Tiles(const Shape& from, const Shape& to, int64_t from_block, int64_t to_block, Pair padding)
      : image{from[2], from[3], from_block},
        result{to[2], to[3], to_block},
        channels(from[1]),
        results(to[1]),
        of_row(ceil_div(to[3], outputs)),
        of_image(ceil_div(to[2], outputs) * of_row),
        count(from[0] * of_image),
        top(padding.height),
        left(padding.width) {}

  struct Position {
    int64_t batch, row, column;  // of the first result
  };
  Position position(int64_t tile) const {
    const int64_t in_image = tile % of_image;
    return {tile / of_image, in_image / of_row * outputs, in_image % of_row * outputs};
  }

  int64_t weight_points() const { return points * channels * results; }
  int64_t tile_points(int64_t tiles) const { return points * tiles * (channels + results); }

  /// The number of tiles that a thread computes at a time: their points fit a second-level cache, and the
  /// data that is read for each block is used often enough.
  int64_t block_of(int threads) const {
    constexpr int64_t cached_floats = 160 * 1024, least = 48, most = 96;
    const int64_t fitting = std::clamp(cached_floats / tile_points(1), least, most);
    return std::min(fitting, ceil_div(count, int64_t{threads}));
  }

  /// Transforms the images of tiles [first, first + n) to points in tiles [begin, begin + n) of a block:
  /// [point][group of channels][tile][channel of the group].
  template <class T>
  void transform_images(int64_t first, int64_t n, const T* x, float* to, int64_t begin, int64_t block,
                        int64_t group) const {
    for (int64_t t = 0; t < n; ++t) {
      const Position at = position(first + t);
      for (int64_t c = 0; c < channels; c += image.block)
        transforms<T>().patch(plane_of(x, image, channels, at.batch, c), image, at.row - top,
                              at.column - left, to + offset_of(begin + t, c, channels, block, group),
                              block * channels);
    }
  }
  /// The same for the results' gradients.
  template <class T>
  void transform_gradients(int64_t first, int64_t n, const T* dy, float* to, int64_t begin, int64_t block,
                           int64_t group) const {
    for (int64_t t = 0; t < n; ++t) {
      const Position at = position(first + t);
      for (int64_t o = 0; o < results; o += result.block)
        transforms<T>().gradient(plane_of(dy, result, results, at.batch, o), result, at.row, at.column,
                                 to + offset_of(begin + t, o, results, block, group), block * results);
    }
  }
  static int64_t offset_of(int64_t tile, int64_t channel, int64_t channels, int64_t block, int64_t group) {
    const int64_t first = channel / group * group;
    return first * block + tile * std::min(group, channels - first) + channel - first;
  }
  template <class T>
  static T* plane_of(T* memory, const Plane& plane, int64_t channels, int64_t batch, int64_t channel) {
    return memory + (batch * channels + channel) * plane.height * plane.width;
  }
};

/// Calls f(first column, width) for panels of two vectors, and one vector at the end.
template <class F>
void each_panel(int64_t columns, F f) {
  const int64_t panel = 2 * kernels().lanes;
  for (int64_t n = 0; n < columns; n += panel) f(n, std::min(panel, columns - n));
}

}  // namespace athanor::cpu::winograd
