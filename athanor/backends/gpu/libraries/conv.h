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
    std::array<int, 4> extents{}, strides{};  // strides in elements
  };
  Tensor x, w, y;
  bool channels_last = false;  // in all three; otherwise w is row-major, and images lie in any way
  std::array<int, 2> padding{}, stride{}, dilation{};
  int groups = 1;
};

/// A request whose images have their channels last, asked with weights in the same order: libraries have fast
/// kernels for that only. `copy` is a loop from the weights as they lie (its buffer 0) to the asked ones (1),
/// or back for their gradient. `weights`: the number of the request's buffer.
struct TurnedWeights {
  KernelRequest asked;
  LoopProgram copy;
  size_t weights;
};
/// None if the weights need not be turned.
std::optional<TurnedWeights> turned_weights(const KernelRequest& request);
/// A candidate for the request from a library's for `turned.asked`.
Candidate with_turned_weights(Candidate library, Candidate copy, const TurnedWeights& turned);

/// The convolution of a conv2d, or of one of its two gradients, without an epilogue and with operands of one
/// dtype. {} for other requests, and if a number does not fit 32 bits or an image repeats elements.
std::optional<LibraryConv> library_conv(const KernelRequest& request);

}  // namespace athanor::gpu
