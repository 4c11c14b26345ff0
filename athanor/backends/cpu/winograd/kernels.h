// The vector code of Winograd's convolutions: transforms of tiles of 4 x 4 results, and products between
// them.
//
// Lavin, Gray: Fast Algorithms for Convolutional Neural Networks (2016), F(4x4, 3x3). The gradient of the
// weights is the transpose of the same algorithm.
#pragma once
#include <cstdint>
#include <type_traits>

#include "athanor/graph/dtype.h"

namespace athanor::cpu::winograd {

inline constexpr int64_t outputs = 4, patch = 6, points = 36;  // of a tile

/// A plane of an image in a blocked layout: [height, width, block].
struct Plane {
  int64_t height, width, block;
};

/// Where weights [O, C, 3, 3] lie: strides in elements, all of them possibly negative.
struct WeightStrides {
  int64_t o, c, row, column;
};

/// A block of a matrix product, C (+)= A B: `a` [rows, k] with any strides, `b` [k, columns] with rows
/// b_stride apart, `c` with rows c_stride apart.
struct Product {
  int64_t k;
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  bool add;  // adds to c instead of overwriting it
};

/// The transforms, for data that is stored as T: float or bf16. Points are float.
template <class T>
struct Transforms {
  /// Transforms the 6 x 6 patch of x whose first pixel is (top, left), with zeros outside the plane, to
  /// points: [36] vectors of `block`, `point_stride` apart.
  void (*patch)(const T* plane, const Plane& size, int64_t top, int64_t left, float* to,
                int64_t point_stride);
  /// The same for the gradients of 4 x 4 results.
  void (*gradient)(const T* plane, const Plane& size, int64_t top, int64_t left, float* to,
                   int64_t point_stride);
  /// Transforms points to 4 x 4 results; stores those inside the plane. `bias`: [block], or nullptr.
  void (*finish_tile)(const float* from, int64_t point_stride, T* plane, const Plane& size, int64_t top,
                      int64_t left, const T* bias, bool relu);
  /// Transforms the weights of `lanes` outputs and one input channel to points.
  void (*weights)(const T* weights, const WeightStrides& strides, float* to, int64_t point_stride);
  /// The transpose: the sum of `parts` arrays of points, part_stride apart, to weights of `lanes` outputs.
  void (*finish_weights)(const float* from, int64_t point_stride, int64_t parts, int64_t part_stride,
                         T* weights, const WeightStrides& strides);
};

struct Kernels {
  int64_t lanes;      // of a vector; a product's columns are a multiple
  int64_t tile_rows;  // the rows of `multiply_tiles`
  int64_t channel_rows;
  /// Multiplies tile_rows rows by one or two vectors of columns.
  void (*multiply_tiles)(const Product& product, bool two_vectors);
  /// The same for channel_rows rows.
  void (*multiply_channels)(const Product& product, bool two_vectors);
  Transforms<float> of_f32;
  Transforms<bf16> of_bf16;
};

/// The kernels for this processor.
const Kernels& kernels();

template <class T>
const Transforms<T>& transforms() {
  if constexpr (std::is_same_v<T, bf16>)
    return kernels().of_bf16;
  else
    return kernels().of_f32;
}

}  // namespace athanor::cpu::winograd
