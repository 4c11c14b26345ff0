// A convolution and its two gradients: three ops with the same attributes, which most kernels serve together.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/graph/op.h"

namespace athanor {

enum class ConvKind : uint8_t {
  result,       // conv2d: y of x, w
  input_grad,   // conv2d_input_grad: x's of y's, w
  weight_grad,  // conv2d_weight_grad: w's of x, y's
};

/// The names of the three ops.
const std::vector<std::string>& conv_ops();
/// Throws Error(internal) for another op.
ConvKind conv_kind(const Op& op);

}  // namespace athanor
