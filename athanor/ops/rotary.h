// Positions as rotations: Su et al., RoFormer (2021).
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

struct RotaryOptions {
  double base = 10000;
  /// The elements of a pair: 2 i and 2 i + 1 if true (as in the paper and GPT-J), else i and i + D / 2 (as in
  /// LLaMA and GPT-NeoX).
  bool interleaved = false;
};

/// Rotates the i-th pair of elements of each row of floats x [..., T, D] by the row's position times
/// base^(-2 i / D). Products of queries and keys then depend on their distance. Positions are integers [T];
/// {}: 0, 1, ..., T - 1. Throws Error(shape) unless D is even and the positions fit, and Error(dtype).
Tensor rotary_embedding(Operand x, const Tensor& positions = {}, const RotaryOptions& options = {});

}  // namespace athanor
