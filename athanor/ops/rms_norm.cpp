#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/norm.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

// 1 / sqrt(mean(x^2) + eps) of each row. The last axis is kept with extent 1.
Tensor inverse_rms(const Tensor& x, const Attrs& attrs) {
  return rsqrt(mean(square(x), -1, true) + attrs.number("eps"));
}

TensorType rms_infer(std::span<const TensorType> in, const Attrs&) {
  check_dtype(in[0], Accept::floats);
  if (in[0].shape.rank() < 1)
    throw Error(ErrorCode::shape, "x has no axes", {}, "Its last axis is normalised");
  return in[0];
}

Tensor rms_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = widened(in[0]);
  return cast(x * inverse_rms(x, attrs), in[0].dtype());
}

std::vector<Tensor> rms_grad(const GradArgs& a) {
  const Tensor x = widened(a.inputs[0]), dy = widened(a.grad), r = inverse_rms(x, a.attrs);
  const Tensor y = x * r;
  return {cast(r * (dy - y * mean(dy * y, -1, true)), a.inputs[0].dtype())};
}

RefArray rms_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const RefArray& x = in[0];
  RefArray y(x.shape);
  const int64_t n = x.shape[-1], rows = n == 0 ? 0 : x.shape.size() / n;
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += x[row * n + i] * x[row * n + i];
    for (int64_t i = 0; i < n; ++i)
      y[row * n + i] = x[row * n + i] / std::sqrt(squares / static_cast<double>(n) + attrs.number("eps"));
  }
  return y;
}

}  // namespace

ATHANOR_OPS(rms_norm) {
  const auto of = [](const Shape& shape) { return OpCase{{{shape, -3, 4}}, {{"eps", 1e-5}}}; };
  define_op({.name = "rms_normalize",
             .doc = "x / sqrt(mean(x^2) + eps), over the last axis",
             .infer = rms_infer,
             .grad = rms_grad,
             .decompose = rms_decompose,
             .reference = rms_reference,
             .cases = {of({17}), of({5, 1}), of({3, 4, 31}), of({0, 5})},
             .flops = [](std::span<const TensorType> in, const auto&,
                         const auto&) { return 4 * in[0].shape.size(); },
             .tolerance = 8});
}

Tensor rms_norm(Operand x, const Tensor& scale, double eps) {
  static const Op& op = find_op("rms_normalize");
  return in_call(
      "rms_norm",
      [&] {
        const Autocast exact(Precision::f32);
        const Tensor value = as_float(x);
        Tensor y = apply(op, {value}, {{"eps", eps}});
        if (!scale.defined()) return y;
        if (scale.shape() != Shape{value.size(-1)})
          throw Error(ErrorCode::shape, fmt::format("the scale is {}", to_string(scale.shape())), {},
                      fmt::format("It is [{}], as the last axis of x", value.size(-1)));
        return cast(y * scale, value.dtype());
      },
      x);
}

}  // namespace athanor
