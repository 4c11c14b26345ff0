// Convolutions as cuDNN and MIOpen take them.
#pragma once
#include <array>
#include <optional>

#include "athanor/kernels/kernel.h"

namespace athanor::gpu {

/// A convolution of images x [N, C, H, W] with weights w [O, C/groups, KH, KW] to y [N, O, OH, OW]: which of
/// the three is computed from the others, and which buffers they are.
struct LibraryConv {
  enum class Computes { y, x, w };
  Computes computes = Computes::y;
  struct Tensor {
    int buffer = 0;
    std::array<int, 4> extents{}, strides{};  // strides in elements; those of w are dense
  };
  Tensor x, w, y;
  std::array<int, 2> padding{}, stride{}, dilation{};
  int groups = 1;
};

/// The convolution of a conv2d, or of one of its two gradients, without an epilogue and with operands of one
/// dtype. {} for other requests, and if a number does not fit 32 bits or an image repeats elements.
std::optional<LibraryConv> library_conv(const KernelRequest& request);

}  // namespace athanor::gpu
