// Scans and sorting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

// Calls f(offset, stride) for the first element of every row along an axis.
void for_each_row(const Shape& shape, int axis, const std::function<void(int64_t, int64_t)>& f) {
  const int64_t stride = contiguous_strides(shape)[static_cast<size_t>(axis)];
  for_each_index(shape.with(axis, std::min<int64_t>(shape[axis], 1)),
                 [&](const Ints& index) { f(offset_of(shape, index), stride); });
}

RefArray reference_cumsum(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result = in[0];
  const int axis = axis_of(attrs);
  for_each_row(result.shape, axis, [&](int64_t first, int64_t stride) {
    for (int64_t i = 1; i < result.shape[axis]; ++i)
      result[first + i * stride] += result[first + (i - 1) * stride];
  });
  return result;
}

RefArray reference_argsort(std::span<const RefArray> in, const Attrs& attrs) {
  const RefArray& x = in[0];
  const int axis = axis_of(attrs);
  const bool descending = attrs.flag("descending");
  RefArray result(x.shape);
  for_each_row(x.shape, axis, [&](int64_t first, int64_t stride) {
    std::vector<int64_t> order(static_cast<size_t>(x.shape[axis]));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      double a = x[first + i * stride], b = x[first + j * stride];
      if (descending) std::swap(a, b);
      return std::isnan(b) ? !std::isnan(a) : a < b;  // NaN is largest
    });
    for (size_t i = 0; i < order.size(); ++i)
      result[first + static_cast<int64_t>(i) * stride] = static_cast<double>(order[i]);
  });
  return result;
}

TensorType infer_cumsum(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::numbers);
  normalize_axis(axis_of(attrs), in[0].shape.rank());
  return in[0];
}

TensorType infer_argsort(std::span<const TensorType> in, const Attrs& attrs) {
  TensorType type = infer_cumsum(in, attrs);
  type.dtype = DType::i64;
  return type;
}

Attrs order_attrs(int64_t axis, bool descending) { return {{"axis", axis}, {"descending", descending}}; }

// x, with bool as 0 and 1, which have an order.
Tensor ordered(const Operand& x) {
  const Tensor value = as_tensor(x);
  return value.dtype() == DType::b8 ? cast(value, DType::u8) : value;
}

}  // namespace

ATHANOR_OPS(order) {
  define_op({.name = "cumsum",
             .doc = "running sums along an axis",
             .prim = Prim::cumsum,
             .dtypes = number_dtypes(),
             .infer = infer_cumsum,
             .grad =
                 [](const GradArgs& a) {
                   const int axis = axis_of(a.attrs);
                   return std::vector{flip(cumsum(flip(a.grad, {axis}), axis), {axis})};
                 },
             .reference = reference_cumsum,
             .cases = {{{{{17}}}, {{"axis", int64_t{0}}}},
                       {{{{3, 5, 2}}}, {{"axis", int64_t{1}}}},
                       {{{{3, 0}}}, {{"axis", int64_t{1}}}}},
             .cast_policy = CastPolicy::deny});
  define_op({.name = "argsort",
             .doc = "i64: the order that sorts x along an axis; stable, NaN largest",
             .prim = Prim::argsort,
             .dtypes = number_dtypes(),
             .infer = infer_argsort,
             .reference = reference_argsort,
             .cases = {{{{{17}}}, order_attrs(0, false)},
                       {{{{3, 5, 2}}}, order_attrs(1, true)},
                       {{{{5, 37}}}, order_attrs(1, false)},
                       {{{{3, 0}}}, order_attrs(1, true)}},
             .differentiable = false});
}

Tensor cumsum(Operand x, int axis) {
  static const Op& op = find_op("cumsum");
  return in_call(
      "cumsum",
      [&] {
        Tensor value = as_tensor(x);
        if (!is_float(value.dtype())) value = cast(value, DType::i64);
        return apply(op, {value}, {{"axis", int64_t{normalize_axis(axis, value.rank())}}});
      },
      x);
}

Tensor argsort(Operand x, int axis, bool descending) {
  static const Op& op = find_op("argsort");
  return in_call(
      "argsort",
      [&] {
        const Tensor value = ordered(x);
        return apply(op, {value}, order_attrs(normalize_axis(axis, value.rank()), descending));
      },
      x);
}

Tensor sort(Operand x, int axis, bool descending) {
  return in_call(
      "sort", [&] { return gather(x, argsort(x, axis, descending), axis); }, x);
}

TopK topk(Operand x, int64_t k, int axis, bool largest) {
  return in_call(
      "topk",
      [&] {
        const Tensor value = as_tensor(x);
        if (const int64_t extent = value.size(axis); k < 0 || k > extent)
          throw Error(ErrorCode::value,
                      fmt::format("the {} first of {} elements along axis {}", k, extent, axis), {},
                      fmt::format("k lies between 0 and {}", extent));
        const Tensor indices = slice(argsort(value, axis, largest), axis, 0, k);
        return TopK{gather(value, indices, axis), indices};
      },
      x);
}

}  // namespace athanor
