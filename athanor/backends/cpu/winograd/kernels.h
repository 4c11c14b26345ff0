// The vector code of Winograd's convolutions: transforms of tiles of 4 x 4 results, and products between
// them.
//
// Lavin, Gray: Fast Algorithms for Convolutional Neural Networks (2016), F(4x4, 3x3). The gradient of the
// weights is the transpose of the same algorithm.
#pragma once
#include <cstdint>

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
  bool add;  // to what is in c
};

struct Kernels {
  int64_t lanes;      // of a vector: columns of a product come in these
  int64_t tile_rows;  // the rows of `multiply_tiles`
  int64_t channel_rows;

  /// The 6 x 6 patch of x whose first pixel is (top, left), zeros outside the plane, as points: [36] vectors
  /// of `block`, `point_stride` apart.
  void (*transform_patch)(const float* plane, const Plane& size, int64_t top, int64_t left, float* to,
                          int64_t point_stride);
  /// The same for 4 x 4 results' gradients.
  void (*transform_gradient)(const float* plane, const Plane& size, int64_t top, int64_t left, float* to,
                             int64_t point_stride);
  /// Points to 4 x 4 results, those inside the plane. `bias`: [block], or nullptr.
  void (*finish_tile)(const float* from, int64_t point_stride, float* plane, const Plane& size, int64_t top,
                      int64_t left, const float* bias, bool relu);
  /// The weights of `lanes` outputs and one input channel as points.
  void (*transform_weights)(const float* weights, const WeightStrides& strides, float* to,
                            int64_t point_stride);
  /// The transpose: the sum of `parts` arrays of points, part_stride apart, to weights of `lanes` outputs.
  void (*finish_weights)(const float* from, int64_t point_stride, int64_t parts, int64_t part_stride,
                         float* weights, const WeightStrides& strides);
  /// tile_rows rows, one or two vectors of columns.
  void (*multiply_tiles)(const Product& product, bool two_vectors);
  /// channel_rows rows.
  void (*multiply_channels)(const Product& product, bool two_vectors);
};

/// For this processor.
const Kernels& kernels();

}  // namespace athanor::cpu::winograd
