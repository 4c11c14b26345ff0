// Mixed precision: which parts of a graph may be computed with fewer bits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/graph/dtype.h"

namespace athanor {

/// How a part of the graph is computed. Tensors keep their dtype in every precision. Only inside plans, f32
/// values are stored and multiplied with fewer bits if the op's CastPolicy allows it (compile/autocast.cpp).
enum class Precision : uint8_t {
  f32,   // in the tensors' dtypes
  tf32,  // f32 factors of products are rounded to 10 bits of mantissa; all values are stored as f32
  bf16,  // products of bf16, summed in f32
  f16,   // products of f16, summed in f32; training needs optim::GradScaler
};

/// The type of f32 values that are computed with fewer bits: bf16 or f16; else f32.
DType stored_in(Precision precision);
/// "bf16"
std::string_view to_string(Precision precision);
/// The inverse of to_string; throws Error(name) with the nearest match.
Precision parse_precision(std::string_view name);
/// The names of all precisions.
const std::vector<std::string>& precision_names();

/// While an Autocast exists, nodes made on this thread are computed in its precision, and so are their
/// gradients. The innermost scope wins: a scope of f32 inside one of bf16 keeps a part exact.
///
///     {
///       const Autocast scope(Precision::bf16);
///       loss = cross_entropy(model(x), labels);
///     }
///     loss.backward();
///
/// It works as PyTorch's torch.autocast, with two differences: a tensor's dtype stays f32, and an operand
/// that is broadcast over the result (a bias, a scale, statistics) does not widen it.
class Autocast {
 public:
  explicit Autocast(Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  /// The precision of the innermost scope on this thread, or f32.
  static Precision current();

 private:
  Precision before_;
};

}  // namespace athanor
