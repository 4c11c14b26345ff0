// Reduction primitives.
#include "athanor/ops/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduce_axes.h"

namespace athanor {
namespace {

bool listed(const Ints& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

Shape without(const Shape& shape, const Ints& axes) {
  Ints dims;
  for (int i = 0; i < shape.rank(); ++i)
    if (!listed(axes, i)) dims.push_back(shape[i]);
  return {dims};
}

TensorType infer_reduce(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::numbers);
  const Ints& axes = attrs.ints("axes");
  normalize_axes(axes, in[0].shape.rank());
  for (int64_t axis : axes)
    if (axis < 0) throw Error(ErrorCode::internal, "a reduction's axes must be normalised");
  return {in[0].dtype, without(in[0].shape, axes), {}};
}

RefArray fold_axes(const RefArray& x, const Ints& axes, double start, double (*combine)(double, double)) {
  RefArray result(without(x.shape, axes), start);
  for_each_index(x.shape, [&](const Ints& index) {
    Ints kept;
    for (size_t i = 0; i < index.size(); ++i)
      if (!listed(axes, static_cast<int>(i))) kept.push_back(index[i]);
    double& value = result[offset_of(result.shape, kept)];
    value = combine(value, x[offset_of(x.shape, index)]);
  });
  return result;
}

// Broadcasts a reduced tensor to x's shape: each element gets the value of its group.
Tensor spread(const Tensor& reduced, const Tensor& x, const Ints& axes) {
  return broadcast_to(keep_axes(reduced, x.shape(), axes), x.shape());
}

std::vector<Tensor> prod_grad(const GradArgs& a) {
  const Tensor x = widened(a.inputs[0]);
  const Ints& axes = a.attrs.ints("axes");
  // The product of the other elements. Division computes it if no element is zero. With one zero, only the
  // zero's product is not 0; with more, all are 0.
  const Tensor zero = equal(x, 0), others = where(zero, 1, x);
  const Tensor zeros = spread(sum(cast(zero, x.dtype()), Axes(axes)), x, axes);
  const Tensor product = spread(prod(others, Axes(axes)), x, axes);
  const Tensor rest = where(equal(zeros, 0), product / others, where(zero & equal(zeros, 1), product, 0));
  return {cast(spread(widened(a.grad), x, axes) * rest, a.grad.dtype())};
}

// bool, of x's shape: the first of the largest (smallest) elements over the axes.
Tensor first_extremum(const Tensor& x, const Ints& axes, bool largest) {
  Ints order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!listed(axes, axis)) order.push_back(axis);
  const size_t kept = order.size();
  order.insert(order.end(), axes.begin(), axes.end());
  Ints groups(kept + 1, 1);
  for (size_t i = 0; i < order.size(); ++i) groups[std::min(i, kept)] *= x.size(static_cast<int>(order[i]));
  const Tensor rows = reshape(permute(x, order), groups);
  const Tensor first = spread(largest ? argmax(rows) : argmin(rows), x, axes);
  Tensor place;
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > kept;) {
    const int axis = static_cast<int>(order[i]);
    const Tensor part = iota(x.shape(), axis, x.device()) * stride;
    place = place.defined() ? place + part : part;
    stride *= x.size(axis);
  }
  return place.defined() ? equal(place, first) : full(x.shape(), 1, DType::b8, x.device());
}

// A loop that computes x again may round it differently from the loop that found the largest: it keeps in
// registers what the other stored with fewer bits (docs/mixed-precision.md), or multiplies and adds in one
// instruction. Then the largest equals no element, but its index still says which it was.
std::vector<Tensor> reduced_extremum_grad(const GradArgs& a, bool largest) {
  const Tensor& x = a.inputs[0];
  const Ints& axes = a.attrs.ints("axes");
  const Tensor is_largest = equal(x, spread(a.output, x, axes)) | first_extremum(x, axes, largest);
  const Tensor chosen = cast(is_largest, a.grad.dtype());
  return {chosen * spread(a.grad / sum(chosen, Axes(axes)), x, axes)};
}

int64_t reduction_flops(std::span<const TensorType> in, const TensorType&, const Attrs&) {
  return in[0].shape.size();
}

void define_reduction(const char* name, const char* doc, Prim prim, double start,
                      double (*combine)(double, double),
                      std::function<std::vector<Tensor>(const GradArgs&)> grad, std::vector<DType> dtypes,
                      bool empty) {
  std::vector<OpCase> cases = {{{{{17}}}, {{"axes", Ints{0}}}},         {{{{5, 7, 3}}}, {{"axes", Ints{1}}}},
                               {{{{5, 7, 3}}}, {{"axes", Ints{0, 2}}}}, {{{{3, 1}}}, {{"axes", Ints{1}}}},
                               {{{{3, 101}}}, {{"axes", Ints{1}}}},     {{{{0, 3}}}, {{"axes", Ints{1}}}}};
  if (empty) cases.push_back({{{{3, 0}}}, {{"axes", Ints{1}}}});
  if (prim == Prim::prod)
    for (auto& c : cases) c.inputs[0].low = 0.6, c.inputs[0].high = 1.6;
  define_op(
      {.name = name,
       .doc = doc,
       .prim = prim,
       .dtypes = std::move(dtypes),
       .infer = infer_reduce,
       .grad = std::move(grad),
       .reference = [start, combine](
                        std::span<const RefArray> in,
                        const Attrs& a) { return fold_axes(in[0], a.ints("axes"), start, combine); },
       .cases = std::move(cases),
       .flops = reduction_flops,
       .cast_policy = prim == Prim::sum || prim == Prim::prod ? CastPolicy::deny : CastPolicy::promote});
}

TensorType infer_argmax(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::numbers);
  const int axis = normalize_axis(attrs.integer("axis"), in[0].shape.rank());
  if (in[0].shape[axis] == 0) throw Error(ErrorCode::shape, fmt::format("axis {} has no elements", axis));
  return {DType::i64, in[0].shape.erase(axis), {}};
}

RefArray reference_argmax(std::span<const RefArray> in, const Attrs& attrs) {
  const auto axis = static_cast<int>(attrs.integer("axis"));
  const Shape& shape = in[0].shape;
  RefArray result(shape.erase(axis));
  for_each_index(result.shape, [&](const Ints& index) {
    Ints position = index;
    position.insert(position.begin() + axis, 0);
    double best = in[0][offset_of(shape, position)];
    int64_t at = 0;
    for (int64_t i = 1; i < shape[axis]; ++i) {
      position[static_cast<size_t>(axis)] = i;
      const double value = in[0][offset_of(shape, position)];
      if (value > best || (std::isnan(value) && !std::isnan(best))) best = value, at = i;
    }
    result[offset_of(result.shape, index)] = static_cast<double>(at);
  });
  return result;
}

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }

Tensor reduce(const Op& op, const char* name, const Operand& x, const Axes& axes, bool keep_dims,
              DType (*accumulator)(DType)) {
  return in_call(
      name,
      [&] {
        Tensor value = as_tensor(x);
        value = cast(value, accumulator(value.dtype()));
        const Ints chosen = reduced_axes(axes, value.rank());
        const Shape& shape = value.shape();
        const Tensor result = chosen.empty() ? value : apply(op, {value}, {{"axes", chosen}});
        return keep_dims ? keep_axes(result, shape, chosen) : result;
      },
      x);
}

DType sum_type(DType t) { return is_float(t) ? t : DType::i64; }
DType order_type(DType t) { return t == DType::b8 ? DType::u8 : t; }

Tensor extremum(const Op& op, const char* name, const Operand& x, const Axes& axes, bool keep_dims) {
  const Tensor result = reduce(op, name, x, axes, keep_dims, order_type);
  const Tensor value = as_tensor(x);
  for (int64_t axis : reduced_axes(axes, value.rank()))
    if (value.shape()[static_cast<int>(axis)] == 0 && result.size() > 0)
      throw Error(ErrorCode::shape,
                  fmt::format("{}({}): axis {} has no elements", name, to_string(value.type()), axis),
                  to_string(x.where()), "The largest and the smallest of nothing are not defined");
  return value.dtype() == DType::b8 ? cast({result, x.where()}, DType::b8) : result;
}

}  // namespace

ATHANOR_OPS(reduction) {
  define_reduction(
      "sum", "the sum over axes, which go; 0 for no elements", Prim::sum, 0,
      [](double a, double b) { return a + b; },
      [](const GradArgs& a) { return std::vector{spread(a.grad, a.inputs[0], a.attrs.ints("axes"))}; },
      number_dtypes(), true);
  define_reduction(
      "prod", "the product over axes, which go; 1 for no elements", Prim::prod, 1,
      [](double a, double b) { return a * b; }, prod_grad, number_dtypes(), true);
  define_reduction(
      "reduce_max", "the largest over axes, which go; NaN if any is", Prim::reduce_max, -infinity, larger,
      [](const GradArgs& a) { return reduced_extremum_grad(a, true); }, number_dtypes(), false);
  define_reduction(
      "reduce_min", "the smallest over axes, which go; NaN if any is", Prim::reduce_min, infinity, smaller,
      [](const GradArgs& a) { return reduced_extremum_grad(a, false); }, number_dtypes(), false);
  define_op(
      {.name = "argmax",
       .doc = "i64: the index of the largest element along an axis; the first of equals; NaN is largest",
       .prim = Prim::argmax,
       .dtypes = number_dtypes(),
       .infer = infer_argmax,
       .reference = reference_argmax,
       .cases = {{{{{17}}}, {{"axis", int64_t{0}}}},
                 {{{{5, 7, 3}}}, {{"axis", int64_t{1}}}},
                 {{{{5, 37}}}, {{"axis", int64_t{1}}}},
                 {{{{0, 3}}}, {{"axis", int64_t{1}}}}},
       .differentiable = false,
       .flops = reduction_flops});
}

Tensor sum(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("sum");
  return reduce(op, "sum", x, axes, keep_dims, sum_type);
}
Tensor prod(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("prod");
  return reduce(op, "prod", x, axes, keep_dims, sum_type);
}
Tensor max(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("reduce_max");
  return extremum(op, "max", x, axes, keep_dims);
}
Tensor min(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("reduce_min");
  return extremum(op, "min", x, axes, keep_dims);
}

Tensor argmax(Operand x, int axis, bool keep_dims) {
  static const Op& op = find_op("argmax");
  return in_call(
      "argmax",
      [&] {
        Tensor value = as_tensor(x);
        value = cast(value, order_type(value.dtype()));
        const int64_t along = normalize_axis(axis, value.rank());
        const Tensor result = apply(op, {value}, {{"axis", along}});
        return keep_dims ? keep_axes(result, value.shape(), {along}) : result;
      },
      x);
}

Tensor argmin(Operand x, int axis, bool keep_dims) {
  return in_call(
      "argmin",
      [&] {
        // -1 - x reverses the order without overflow, also for unsigned and lowest integers.
        Tensor value = as_tensor(x);
        if (is_float(value.dtype())) {
          value = where(is_nan(value), value, -value);
        } else {
          value = -1 - cast(value, value.dtype() == DType::i64 ? DType::i64 : DType::i32);
        }
        return argmax(value, axis, keep_dims);
      },
      x);
}

Tensor all(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("reduce_min");
  const SourceScope scope(x.where());
  need("all", x);
  const Tensor truth = cast(cast(x, DType::b8), DType::u8);
  return cast(reduce(op, "all", {truth, x.where()}, axes, keep_dims, order_type), DType::b8);
}
Tensor any(Operand x, const Axes& axes, bool keep_dims) {
  static const Op& op = find_op("reduce_max");
  const SourceScope scope(x.where());
  need("any", x);
  const Tensor truth = cast(cast(x, DType::b8), DType::u8);
  return cast(reduce(op, "any", {truth, x.where()}, axes, keep_dims, order_type), DType::b8);
}

}  // namespace athanor
