// Softmax and its logarithm.
#include <cmath>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

TensorType softmax_infer(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::floats);
  normalize_axis(axis_of(attrs), in[0].shape.rank());
  return in[0];
}

// Subtracts the largest element, so that nothing overflows. Any shift gives the same result.
Tensor shifted(const Tensor& x, int axis) {
  return x.size() == 0 ? x : x - detach(max(x, axis, true));  // no elements, no largest element
}

// softmax, or its logarithm, in float64.
RefArray softmax_reference(const RefArray& x, int axis, bool logarithm) {
  RefArray result(x.shape);
  const auto along = static_cast<size_t>(axis);
  for_each_index(x.shape, [&](const Ints& index) {
    double largest = -INFINITY, total = 0;
    Ints other = index;
    for (other[along] = 0; other[along] < x.shape[axis]; ++other[along])
      largest = std::max(largest, x[offset_of(x.shape, other)]);
    for (other[along] = 0; other[along] < x.shape[axis]; ++other[along])
      total += std::exp(x[offset_of(x.shape, other)] - largest);
    const double value = x[offset_of(x.shape, index)] - largest;
    result[offset_of(x.shape, index)] = logarithm ? value - std::log(total) : std::exp(value) / total;
  });
  return result;
}

std::vector<OpCase> row_cases() {
  const auto along = [](Shape shape, int64_t axis) { return OpCase{{{shape, -5, 5}}, {{"axis", axis}}}; };
  return {along({17}, 0),   along({5, 7, 3}, 1), along({5, 37}, 1),
          along({3, 1}, 1), along({3, 0}, 1),    along({0, 3}, 1)};
}

int64_t row_flops(std::span<const TensorType> in, const TensorType&, const Attrs&) {
  return 5 * in[0].shape.size();
}

Tensor softmax_grad(const Tensor& y, const Tensor& dy, int axis) {
  return y * (dy - sum(dy * y, axis, true));
}

Tensor apply_rows(const Op& op, const Operand& x, int axis) {
  return in_call(
      op.name.c_str(),
      [&] {
        const Tensor value = as_float(x);
        return apply(op, {value}, {{"axis", int64_t{normalize_axis(axis, value.rank())}}});
      },
      x);
}

}  // namespace

ATHANOR_OPS(softmax) {
  define_op({.name = "softmax",
             .doc = "exp(x) / sum(exp(x)) along an axis, without overflow",
             .infer = softmax_infer,
             .grad =
                 [](const GradArgs& a) {
                   const Tensor dx = softmax_grad(widened(a.output), widened(a.grad), axis_of(a.attrs));
                   return std::vector{cast(dx, a.output.dtype())};
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   const int axis = axis_of(attrs);
                   const Tensor power = exp(shifted(widened(in[0]), axis));
                   return cast(power / sum(power, axis, true), in[0].dtype());
                 },
             .reference = [](std::span<const RefArray> in,
                             const Attrs& attrs) { return softmax_reference(in[0], axis_of(attrs), false); },
             .cases = row_cases(),
             .flops = row_flops,
             .tolerance = 4,
             .cast_policy = CastPolicy::deny});
  define_op({.name = "log_softmax",
             .doc = "log(exp(x) / sum(exp(x))) along an axis, without overflow",
             .infer = softmax_infer,
             .grad =
                 [](const GradArgs& a) {
                   const Tensor dy = widened(a.grad);
                   const Tensor dx = dy - exp(widened(a.output)) * sum(dy, axis_of(a.attrs), true);
                   return std::vector{cast(dx, a.output.dtype())};
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   const int axis = axis_of(attrs);
                   const Tensor x = shifted(widened(in[0]), axis);
                   return cast(x - log(sum(exp(x), axis, true)), in[0].dtype());
                 },
             .reference = [](std::span<const RefArray> in,
                             const Attrs& attrs) { return softmax_reference(in[0], axis_of(attrs), true); },
             .cases = row_cases(),
             .flops = row_flops,
             .tolerance = 4,
             .cast_policy = CastPolicy::deny});
}

Tensor softmax(Operand x, int axis) {
  static const Op& op = find_op("softmax");
  return apply_rows(op, x, axis);
}

Tensor log_softmax(Operand x, int axis) {
  static const Op& op = find_op("log_softmax");
  return apply_rows(op, x, axis);
}

}  // namespace athanor
