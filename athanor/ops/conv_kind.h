// A convolution and its two gradients: three ops with the same attributes. Most kernels handle all three.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/graph/op.h"

namespace athanor {

enum class ConvKind : uint8_t {
  result,       // conv2d: x, w -> y
  input_grad,   // conv2d_input_grad: dy, w -> dx
  weight_grad,  // conv2d_weight_grad: x, dy -> dw
};

/// The names of the three ops, in the order of ConvKind.
const std::vector<std::string>& conv_ops();
/// The kind of an op. Throws Error(internal) if it is not a convolution.
ConvKind conv_kind(const Op& op);

}  // namespace athanor
