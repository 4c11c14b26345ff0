// Convolutions as cuDNN and MIOpen take them.
#pragma once
#include <array>
#include <optional>
#include <vector>

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

/// A request whose images have their channels last, asked with other orders in memory: `turned` operands are
/// copied to that order in scratch memory, or from there if they are written.
struct TurnedConv {
  KernelRequest asked;
  struct Operand {
    size_t buffer;     // of the request
    LoopProgram copy;  // from its buffer 0 to its buffer 1
  };
  std::vector<Operand> turned;
  const char* name;  // what is turned
};
/// With weights in the order of images: libraries have fast kernels for that only. In f32 also with all in
/// row-major order, for which some have Winograd's algorithm. None if nothing need be turned.
std::vector<TurnedConv> turned_convs(const KernelRequest& request);
/// A candidate for the request from a library's for `conv.asked`; `copies`: of the turned operands.
Candidate with_turned(Candidate library, std::vector<Candidate> copies, const TurnedConv& conv);

/// The convolution of a conv2d, or of one of its two gradients, without an epilogue and with operands of one
/// dtype. {} for other requests, and if a number does not fit 32 bits or an image repeats elements.
std::optional<LibraryConv> library_conv(const KernelRequest& request);

}  // namespace athanor::gpu
