// Attention's operands where they lie, and the memory that a thread works in.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"

namespace athanor::cpu {

/// What an attention kernel computes.
struct AttentionProblem {
  int64_t heads, queries, keys, d, e;  // q [heads, queries, d], k [heads, keys, d], v [heads, keys, e]
  bool causal;
  double scale;
  int64_t shift() const { return keys - queries; }  // query i sees the keys up to i + shift
};

/// The matrices of all heads [rows, features] in one of the kernel's buffers, or (without features) numbers
/// for all rows. Leading axes are the heads.
class HeadOperand {
 public:
  HeadOperand() = default;
  HeadOperand(const OperandDesc& operand, size_t buffer, bool features)
      : buffer_(buffer), dtype_(operand.dtype), there_(true) {
    const auto own = static_cast<size_t>(features ? 2 : 1);
    const size_t rank = operand.strides.size(), leading = rank - own;
    row_ = operand.strides[leading];
    feature_ = features ? operand.strides[rank - 1] : 0;
    starts_ = {0};
    for (size_t axis = 0; axis < leading; ++axis) {
      std::vector<int64_t> next;
      for (const int64_t start : starts_)
        for (int64_t i = 0; i < operand.shape[static_cast<int>(axis)]; ++i)
          next.push_back(start + i * operand.strides[axis]);
      starts_ = std::move(next);
    }
  }
  explicit operator bool() const { return there_; }
  DType dtype() const { return dtype_; }
  int64_t row() const { return row_; }
  int64_t feature() const { return feature_; }
  template <class T>
  T* at(Buffers buffers, int64_t head) const {
    return static_cast<T*>(buffers[buffer_]) + starts_[static_cast<size_t>(head)];
  }

 private:
  std::vector<int64_t> starts_;  // of each head, in elements
  int64_t row_ = 0, feature_ = 0;
  size_t buffer_ = 0;
  DType dtype_ = DType::f32;
  bool there_ = false;
};

/// What a request needs memory for.
struct AttentionNeeds {
  bool gradient;  // any
  bool values;    // products with v or g: the result, or v's gradient
  bool along;     // q's gradient beside k's or v's
};

/// A thread's memory. With `base` nullptr it only counts bytes().
template <class A>
class AttentionMemory {
 public:
  /// Rows of scores that are computed at a time: a multiple of every micro kernel's rows.
  static constexpr int64_t block = 96;

  AttentionMemory(const AttentionProblem& p, const MicroKernel<A>& micro, const AttentionNeeds& needs,
                  std::byte* base)
      : base_(base) {
    const int64_t columns = micro.columns, longest = std::max(p.queries, p.keys);
    const auto up = [](int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; };
    for (A** of : {&scores, &mask}) *of = take(block * columns);
    own_d = take(p.d * columns);
    rows_d = take(up(longest, micro.rows) * p.d);
    for (A** of : {&numbers_1, &numbers_2, &factors}) *of = take(up(longest, columns));
    if (needs.values) {
      deep_e = take(up(p.e, micro.rows) * longest);
      sums_e = take(up(p.e, micro.rows) * columns);
    }
    if (!needs.gradient) return;
    score_grads = take(block * columns);
    own_e = take(p.e * columns);
    rows_e = take(up(longest, micro.rows) * p.e);
    deep_d = take(up(p.d, micro.rows) * longest);
    sums_d = take(up(p.d, micro.rows) * columns);
    if (!needs.along) return;
    turned = take(block * columns);
    keys_d = take(up(p.d, columns) * p.keys);
    query_grads = take(up(p.queries, micro.rows) * up(p.d, columns));
  }
  size_t bytes() const { return used_; }

  // _d and _e: of matrices with d or e features. own: a panel of columns; rows: other rows, as they meet own
  // columns in scores; deep: the same rows, along which products with scores are summed, into `sums`.
  A *scores = nullptr, *mask = nullptr, *own_d = nullptr, *rows_d = nullptr, *deep_e = nullptr,
    *sums_e = nullptr;
  A *numbers_1 = nullptr, *numbers_2 = nullptr, *factors = nullptr;  // largest and sums, or lse and delta
  A *score_grads = nullptr, *turned = nullptr, *own_e = nullptr, *rows_e = nullptr, *deep_d = nullptr,
    *sums_d = nullptr, *keys_d = nullptr, *query_grads = nullptr;

 private:
  A* take(int64_t count) {
    std::byte* const at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += aligned(static_cast<size_t>(count) * sizeof(A));
    return reinterpret_cast<A*>(at);
  }
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace athanor::cpu
