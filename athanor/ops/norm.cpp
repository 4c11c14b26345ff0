#include "athanor/ops/norm.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduce_axes.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

TensorType norm_infer(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::floats);
  normalize_axes(attrs.ints("axes"), in[0].shape.rank());
  return in[0];
}

// Statistics of f16 and bf16 are computed in f32. The forward pass and the gradient build the same
// expressions, which simplification then computes once.
struct Statistics {
  Tensor deviation, rstd;  // x - mean; 1 / sqrt(variance + eps), with axes kept
};

Statistics statistics(const Tensor& x, const Attrs& attrs) {
  const Moments m = moments(x, Axes(attrs.ints("axes")));
  return {x - m.mean, rsqrt(m.var + attrs.number("eps"))};
}

Tensor norm_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const auto [deviation, rstd] = statistics(widened(in[0]), attrs);
  return cast(deviation * rstd, in[0].dtype());
}

std::vector<Tensor> normal_grad(const GradArgs& a) {
  const Tensor x = widened(a.inputs[0]), dy = widened(a.grad);
  const Axes axes(a.attrs.ints("axes"));
  const auto [deviation, rstd] = statistics(x, a.attrs);
  const Tensor normal = deviation * rstd;
  const Tensor dx = rstd * (dy - mean(dy, axes, true) - normal * mean(dy * normal, axes, true));
  return {cast(dx, a.inputs[0].dtype())};
}

RefArray norm_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const RefArray& x = in[0];
  const Ints& axes = attrs.ints("axes");
  Shape kept = x.shape;
  for (int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  const auto group = [&](Ints index) {
    for (int64_t axis : axes) index[static_cast<size_t>(axis)] = 0;
    return offset_of(kept, index);
  };
  RefArray mean(kept), variance(kept), result(x.shape);
  const auto count = static_cast<double>(reduced_count(x.shape, axes));
  for_each_index(x.shape, [&](const Ints& i) { mean[group(i)] += x[offset_of(x.shape, i)] / count; });
  for_each_index(x.shape, [&](const Ints& i) {
    variance[group(i)] += std::pow(x[offset_of(x.shape, i)] - mean[group(i)], 2) / count;
  });
  for_each_index(x.shape, [&](const Ints& i) {
    const int64_t at = offset_of(x.shape, i);
    result[at] = (x[at] - mean[group(i)]) / std::sqrt(variance[group(i)] + attrs.number("eps"));
  });
  return result;
}

Ints axes_but_channel(int rank) {
  Ints axes;
  for (int axis = 0; axis < rank; ++axis)
    if (axis != 1) axes.push_back(axis);
  return axes;
}

void check_channels(const Tensor& x, std::initializer_list<const Tensor*> vectors) {
  if (x.rank() < 2) throw Error(ErrorCode::shape, "takes [N, C, ...]");
  for (const Tensor* v : vectors)
    if (v->defined() && v->shape() != Shape{x.size(1)})
      throw Error(ErrorCode::shape,
                  fmt::format("{} does not fit {} channels", to_string(v->shape()), x.size(1)), {},
                  fmt::format("It is [{}]", x.size(1)));
}

// [C] in a shape that broadcasts to [N, C, ...].
Tensor of_channels(const Tensor& v, int rank) {
  Ints shape(static_cast<size_t>(rank), 1);
  shape[1] = v.size();
  return reshape(v, shape);
}

Tensor affine(Tensor y, const Tensor& scale, const Tensor& shift) {
  const DType dtype = y.dtype();
  if (scale.defined()) y = y * of_channels(scale, y.rank());
  if (shift.defined()) y = y + of_channels(shift, y.rank());
  return cast(y, dtype);
}

}  // namespace

ATHANOR_OPS(norm) {
  const auto over = [](const Shape& shape, const Ints& axes) {
    return OpCase{{{shape, -3, 4}}, {{"axes", axes}, {"eps", 1e-5}}};
  };
  define_op({.name = "normalize",
             .doc = "(x - mean) / sqrt(variance + eps), both over axes",
             .infer = norm_infer,
             .grad = normal_grad,
             .decompose = norm_decompose,
             .reference = norm_reference,
             .cases = {over({17}, {0}), over({5, 7, 3}, {0, 2}), over({3, 4, 5, 2}, {0, 2, 3}),
                       over({7, 31}, {1}), over({0, 5}, {1})},
             .flops = [](std::span<const TensorType> in, const auto&,
                         const auto&) { return 7 * in[0].shape.size(); },
             .tolerance = 16});
}

Tensor normalize(Operand x, const Ints& axes, double eps) {
  static const Op& op = find_op("normalize");
  return in_call(
      "normalize",
      [&] {
        const Tensor value = as_float(x);
        return apply(op, {value}, {{"axes", normalize_axes(axes, value.rank())}, {"eps", eps}});
      },
      x);
}

Tensor batch_norm(Operand x, const Tensor& scale, const Tensor& shift, double eps) {
  return in_call(
      "batch_norm",
      [&] {
        const Tensor value = as_float(x);
        check_channels(value, {&scale, &shift});
        return affine(normalize(value, axes_but_channel(value.rank()), eps), scale, shift);
      },
      x);
}

Tensor batch_norm(Operand x, const Tensor& scale, const Tensor& shift, const Tensor& mean, const Tensor& var,
                  double eps) {
  return in_call(
      "batch_norm",
      [&] {
        const Tensor value = as_float(x);
        for (const Tensor* v : {&mean, &var})
          if (!v->defined())
            throw Error(ErrorCode::value,
                        fmt::format("its {} is undefined", v == &mean ? "mean" : "variance"), {},
                        "Without them, batch_norm(x, scale, shift) takes those of the batch");
        check_channels(value, {&scale, &shift, &mean, &var});
        // The same as one factor and one offset for each channel.
        Tensor factor = rsqrt(var + eps);
        if (scale.defined()) factor = factor * scale;
        const Tensor term = shift.defined() ? shift - mean * factor : -mean * factor;
        return affine(value, factor, term);
      },
      x);
}

Tensor layer_norm(Operand x, int axes, const Tensor& scale, const Tensor& shift, double eps) {
  return in_call(
      "layer_norm",
      [&] {
        const Autocast exact(Precision::f32);
        const Tensor value = as_float(x);
        if (axes < 1 || axes > value.rank())
          throw Error(ErrorCode::shape,
                      fmt::format("the last {} axes of {}", axes, to_string(value.shape())));
        Ints last;
        for (int axis = value.rank() - axes; axis < value.rank(); ++axis) last.push_back(axis);
        const Shape own(value.shape().dims().last(static_cast<size_t>(axes)));
        Tensor y = normalize(value, last, eps);
        for (const Tensor* v : {&scale, &shift})
          if (v->defined() && v->shape() != own)
            throw Error(ErrorCode::shape,
                        fmt::format("scale and shift are {}, not {}", to_string(own), to_string(v->shape())));
        if (scale.defined()) y = y * scale;
        if (shift.defined()) y = y + shift;
        return cast(y, value.dtype());
      },
      x);
}

Tensor group_norm(Operand x, int64_t groups, const Tensor& scale, const Tensor& shift, double eps) {
  return in_call(
      "group_norm",
      [&] {
        const Autocast exact(Precision::f32);
        const Tensor value = as_float(x);
        check_channels(value, {&scale, &shift});
        const int64_t batch = value.size(0), channels = value.size(1);
        if (groups < 1 || channels % groups != 0)
          throw Error(ErrorCode::value, fmt::format("{} groups of {} channels", groups, channels), {},
                      "The groups must divide the channels");
        int64_t inner = channels / groups;
        for (int axis = 2; axis < value.rank(); ++axis) inner *= value.size(axis);
        const Tensor grouped = normalize(reshape(value, {batch, groups, inner}), {2}, eps);
        return affine(reshape(grouped, value.shape().to_ints()), scale, shift);
      },
      x);
}

}  // namespace athanor
