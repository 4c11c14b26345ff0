// Means, variances and norms.
#include <cmath>
#include <limits>
#include <numeric>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduce_axes.h"
#include "athanor/ops/reduction.h"

namespace athanor {

Ints reduced_axes(const Axes& axes, int rank) {
  if (!axes.all) return normalize_axes(axes.list, rank);
  Ints all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Tensor keep_axes(const Tensor& reduced, const Shape& shape, const Ints& axes) {
  Shape kept = shape;
  for (int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return reshape(reduced, kept.to_ints());
}

int64_t reduced_count(const Shape& shape, const Ints& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= shape[static_cast<int>(axis)];
  return count;
}

namespace {

// Computes in f32 for f16 and bf16. The mean of no elements is NaN.
Moments wide_moments(const Tensor& x, const Ints& axes, double correction) {
  const Autocast exact(Precision::f32);
  const Tensor wide = widened(x);
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  const Tensor mean = sum(wide, Axes(axes), true) / count;
  const Tensor deviation = wide - mean;
  return {mean, sum(deviation * deviation, Axes(axes), true) / std::max(count - correction, 0.0)};
}

Tensor without_axes(const Tensor& kept, const Ints& axes) {
  return axes.empty() ? kept : squeeze(kept, axes);
}

}  // namespace

Moments moments(Operand x, const Axes& axes) {
  return in_call(
      "moments",
      [&] {
        const Tensor value = as_float(x);
        const Moments wide = wide_moments(value, reduced_axes(axes, value.rank()), 0);
        return Moments{cast(wide.mean, value.dtype()), cast(wide.var, value.dtype())};
      },
      x);
}

Tensor mean(Operand x, const Axes& axes, bool keep_dims) {
  return in_call(
      "mean",
      [&] {
        const Tensor value = as_float(x);
        const Ints chosen = reduced_axes(axes, value.rank());
        const auto count = static_cast<double>(reduced_count(value.shape(), chosen));
        return cast(sum(widened(value), Axes(chosen), keep_dims) / count, value.dtype());
      },
      x);
}

Tensor var(Operand x, const Axes& axes, bool keep_dims, double correction) {
  return in_call(
      "var",
      [&] {
        const Tensor value = as_float(x);
        const Ints chosen = reduced_axes(axes, value.rank());
        const Tensor result = cast(wide_moments(value, chosen, correction).var, value.dtype());
        return keep_dims ? result : without_axes(result, chosen);
      },
      x);
}

Tensor stddev(Operand x, const Axes& axes, bool keep_dims, double correction) {
  const SourceScope scope(x.where());
  need("stddev", x);
  return sqrt(var(x, axes, keep_dims, correction));
}

Tensor logsumexp(Operand x, const Axes& axes, bool keep_dims) {
  return in_call(
      "logsumexp",
      [&] {
        const Autocast exact(Precision::f32);
        const Tensor value = as_float(x), wide = widened(value);
        const Ints chosen = reduced_axes(axes, value.rank());
        // Any shift is correct. It is 0 if there are no elements or if the largest one is infinite.
        Tensor shift = constant(0, wide.dtype(), wide.device());
        if (reduced_count(value.shape(), chosen) > 0) {
          const Tensor largest = detach(max(wide, Axes(chosen), true));
          shift = where(is_finite(largest), largest, shift);
        }
        const Tensor result = cast(log(sum(exp(wide - shift), Axes(chosen), true)) + shift, value.dtype());
        return keep_dims ? result : without_axes(result, chosen);
      },
      x);
}

Tensor norm(Operand x, const Axes& axes, bool keep_dims, double p) {
  return in_call(
      "norm",
      [&] {
        const Autocast exact(Precision::f32);
        const Tensor value = as_float(x), wide = widened(value);
        if (std::isinf(p)) {
          const Operand sizes(abs(wide), x.where());  // of none, the error names the caller's line
          return cast(p > 0 ? max(sizes, axes, keep_dims) : min(sizes, axes, keep_dims), value.dtype());
        }
        if (p == 0) return cast(sum(cast(not_equal(wide, 0), wide.dtype()), axes, keep_dims), value.dtype());
        if (p == 1) return cast(sum(abs(wide), axes, keep_dims), value.dtype());
        const Tensor total =
            p == 2 ? sum(wide * wide, axes, keep_dims) : sum(pow(abs(wide), p), axes, keep_dims);
        // The norm of zeros is 0, and so is its gradient here; the gradient of the root would be infinite.
        const Tensor none = equal(total, 0), safe = where(none, 1, total);
        return cast(where(none, 0, p == 2 ? sqrt(safe) : pow(safe, 1 / p)), value.dtype());
      },
      x);
}

}  // namespace athanor
