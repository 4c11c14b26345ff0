// Positions as rotations: Su et al., RoFormer (2021).
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

struct RotaryOptions {
  double base = 10000;
  /// Which elements of a row make a pair: i and i + D / 2 (as in LLaMA and GPT-NeoX), or 2 i and 2 i + 1 (as
  /// in the paper and GPT-J).
  bool interleaved = false;
};

/// Turns the i-th pair of elements of each row of floats x [..., T, D] by its position times base^(-2 i / D):
/// products of queries and keys then depend on how far apart they are. Positions are integers [T]; {}: 0, 1,
/// ..., T - 1. Throws Error(shape) unless D is even and the positions fit, and Error(dtype).
Tensor rotary_embedding(Operand x, const Tensor& positions = {}, const RotaryOptions& options = {});

}  // namespace athanor
