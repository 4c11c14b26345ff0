// What attention computes in blocks of scores, beside matrix products.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// Blocks are dense, [rows, columns], and `columns` is that of the micro kernel's tile for T. A mask is such
/// a block too, or nullptr.
template <class T>
struct AttentionRows {
  /// The softmax of each column, block after block: with x = scale * s + mask, raises `largest` to the
  /// largest x so far, puts exp(x - largest) into s, and adds it to `sums`, after multiplying these by
  /// `factors`: exp(old largest - new). Largest begins with -infinity, and sums with 0.
  void (*softmax)(int64_t rows, int64_t columns, T scale, const T* mask, T* s, T* largest, T* sums,
                  T* factors);
  /// Multiplies each column by its factor.
  void (*multiply)(int64_t rows, int64_t columns, const T* factors, T* s);
  /// The weights and the gradient of the scores: s = exp(scale * s + mask - lse), and unless ds is nullptr,
  /// ds = scale * s * (ds - delta). There is an lse and a delta for each row (`by_row`) or each column.
  void (*weights)(int64_t rows, int64_t columns, T scale, const T* mask, bool by_row, const T* lse,
                  const T* delta, T* s, T* ds);
};

/// The fastest for this processor.
template <class T>
const AttentionRows<T>& attention_rows();
template <>
const AttentionRows<float>& attention_rows();
template <>
const AttentionRows<double>& attention_rows();

}  // namespace athanor::cpu
