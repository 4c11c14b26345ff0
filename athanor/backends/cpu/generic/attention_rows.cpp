#include "athanor/backends/cpu/generic/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/backends/cpu/generic/product_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/attention_rows.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

#include "athanor/backends/cpu/loops/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace math = athanor::loops::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;

HWY_INLINE Vector scaled(Vector s, Vector scale, const float* mask, int64_t i) {
  const Lanes d;
  return mask == nullptr ? hn::Mul(s, scale) : hn::MulAdd(s, scale, hn::LoadU(d, mask + i));
}

void softmax(int64_t rows, int64_t columns, float scale, const float* mask, float* s, float* largest,
             float* sums, float* factors) {
  const Lanes d;
  const Vector lowest = hn::Set(d, -std::numeric_limits<float>::infinity()), by = hn::Set(d, scale);
  for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
    const Vector before = hn::LoadU(d, largest + c);
    Vector most = before;
    for (int64_t i = c; i < rows * columns; i += columns) {
      const Vector x = scaled(hn::LoadU(d, s + i), by, mask, i);
      hn::StoreU(x, d, s + i);
      // A NaN is passed on by its exponential.
      most = hn::Max(most, x);
    }
    // Where all was hidden so far, exp(-infinity - 0) is 0.
    const Vector from = hn::IfThenZeroElse(hn::Eq(most, lowest), most);
    const Vector factor = math::exp_of(d, hn::Sub(before, from));
    Vector sum = hn::Mul(hn::LoadU(d, sums + c), factor);
    for (int64_t i = c; i < rows * columns; i += columns) {
      const Vector weight = math::exp_of(d, hn::Sub(hn::LoadU(d, s + i), from));
      hn::StoreU(weight, d, s + i);
      sum = hn::Add(sum, weight);
    }
    hn::StoreU(most, d, largest + c);
    hn::StoreU(sum, d, sums + c);
    hn::StoreU(factor, d, factors + c);
  }
}

void multiply(int64_t rows, int64_t columns, const float* factors, float* s) {
  const Lanes d;
  for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
    const Vector factor = hn::LoadU(d, factors + c);
    for (int64_t i = c; i < rows * columns; i += columns)
      hn::StoreU(hn::Mul(hn::LoadU(d, s + i), factor), d, s + i);
  }
}

template <bool by_row>
void weights_of(int64_t rows, int64_t columns, float scale, const float* mask, const float* lse,
                const float* delta, float* s, float* ds) {
  const Lanes d;
  const Vector by = hn::Set(d, scale);
  const auto number = [&](const float* of, int64_t row, int64_t column)
                          HWY_ATTR { return by_row ? hn::Set(d, of[row]) : hn::LoadU(d, of + column); };
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
      const int64_t i = row * columns + c;
      const Vector weight =
          math::exp_of(d, hn::Sub(scaled(hn::LoadU(d, s + i), by, mask, i), number(lse, row, c)));
      hn::StoreU(weight, d, s + i);
      if (ds == nullptr) continue;
      const Vector change = hn::Sub(hn::LoadU(d, ds + i), number(delta, row, c));
      hn::StoreU(hn::Mul(hn::Mul(weight, change), by), d, ds + i);
    }
}

void weights(int64_t rows, int64_t columns, float scale, const float* mask, bool by_row, const float* lse,
             const float* delta, float* s, float* ds) {
  const auto run = by_row ? weights_of<true> : weights_of<false>;
  run(rows, columns, scale, mask, lse, delta, s, ds);
}

const AttentionRows<float>& rows_f32() {
  static const AttentionRows<float> all{softmax, multiply, weights};
  return all;
}

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(rows_f32);

template <>
const AttentionRows<float>& attention_rows() {
  return HWY_DYNAMIC_DISPATCH(rows_f32)();
}

namespace {

void plain_softmax(int64_t rows, int64_t columns, double scale, const double* mask, double* s,
                   double* largest, double* sums, double* factors) {
  for (int64_t c = 0; c < columns; ++c) {
    const double before = largest[c];
    for (int64_t i = c; i < rows * columns; i += columns) {
      s[i] = scale * s[i] + (mask == nullptr ? 0 : mask[i]);
      largest[c] = std::max(largest[c], s[i]);
    }
    const double from = std::isinf(largest[c]) && largest[c] < 0 ? 0 : largest[c];
    factors[c] = std::exp(before - from);
    sums[c] *= factors[c];
    for (int64_t i = c; i < rows * columns; i += columns) sums[c] += s[i] = std::exp(s[i] - from);
  }
}

void plain_multiply(int64_t rows, int64_t columns, const double* factors, double* s) {
  for (int64_t i = 0; i < rows * columns; ++i) s[i] *= factors[i % columns];
}

void plain_weights(int64_t rows, int64_t columns, double scale, const double* mask, bool by_row,
                   const double* lse, const double* delta, double* s, double* ds) {
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t number = by_row ? i / columns : i % columns;
    s[i] = std::exp(scale * s[i] + (mask == nullptr ? 0 : mask[i]) - lse[number]);
    if (ds != nullptr) ds[i] = scale * s[i] * (ds[i] - delta[number]);
  }
}

}  // namespace

template <>
const AttentionRows<double>& attention_rows() {
  static const AttentionRows<double> plain{plain_softmax, plain_multiply, plain_weights};
  return plain;
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
