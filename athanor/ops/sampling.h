// Reading images at computed positions, also between elements.
#pragma once
#include <cstdint>

#include "athanor/graph/tensor.h"
#include "athanor/ops/conv.h"
#include "athanor/ops/interpolate.h"

namespace athanor {

enum class Border : uint8_t {
  zeros,       // outside is 0
  border,      // outside is the nearest element
  reflection,  // outside is the image, mirrored repeatedly at its edges
};

struct GridSampleOptions {
  Interpolation mode = Interpolation::linear;  // or nearest (halves to even)
  Border border = Border::zeros;
  /// Whether -1 and 1 are the centres of the first and last elements; if not, their outer edges.
  bool align_corners = false;
};

/// x [N, C, H, W] at the positions of grid [N, OH, OW, 2]: [N, C, OH, OW]. A position is (x, y), with -1 at
/// the left and upper end and 1 at the right and lower end. Gradients flow to both. Jaderberg et al., Spatial
/// Transformer Networks (2015). Throws Error(shape) if x and the grid do not fit, Error(value) for another
/// mode, and Error(dtype).
Tensor grid_sample(Operand x, Operand grid, const GridSampleOptions& options = {});

/// The grid that grid_sample() takes for affine maps theta [N, 2, 3] of positions (x, y, 1) in an image of
/// `size`: [N, size.height, size.width, 2]. Throws Error(shape|value).
Tensor affine_grid(Operand theta, Pair size, bool align_corners = false);

struct RoiAlignOptions {
  double scale = 1;      // the elements of x in one unit of the boxes
  int64_t samples = 2;   // averaged along each axis for each element of the result
  bool aligned = false;  // whether element i is centred at i + 1/2 (He et al.'s later version) and not at i
};

/// The part of x [N, C, H, W] in each box, resized: [K, C, output.height, output.width]. Boxes [K, 5] hold
/// the image's number, x1, y1, x2 and y2. As torchvision's roi_align with a given sampling_ratio. He,
/// Gkioxari, Dollar, Girshick, Mask R-CNN (2017). Throws Error(shape|value), and Error(dtype).
Tensor roi_align(Operand x, Operand boxes, Pair output, const RoiAlignOptions& options = {});

}  // namespace athanor
