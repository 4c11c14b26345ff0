#include "athanor/ops/rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

TensorType rotary_infer(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::floats);
  const Shape& x = in[0].shape;
  if (x.rank() < 2 || x[-1] % 2 != 0)
    throw Error(ErrorCode::shape, fmt::format("x is {}", to_string(x)), {},
                "It is [..., T, D] with an even D");
  if (in[1].dtype != DType::i64 || in[1].shape != Shape{x[-2]})
    throw Error(ErrorCode::shape, fmt::format("the positions are {}", to_string(in[1])), {},
                fmt::format("They are i64[{}], one for each row", x[-2]));
  if (!(attrs.number("base") > 0))
    throw Error(ErrorCode::value, fmt::format("a base of {}", attrs.number("base")), {}, "10000 is usual");
  return in[0];
}

Tensor rotary_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = widened(in[0]);
  const int64_t t = x.size(-2), half = x.size(-1) / 2;
  const Tensor pair = cast(iota({1, half}, 1, x.device()), x.dtype());
  const Tensor frequency =
      exp(pair * (-std::log(attrs.number("base")) / static_cast<double>(std::max<int64_t>(1, half))));
  const Tensor angle = reshape(cast(in[1], x.dtype()), {t, 1}) * frequency;
  // Written so that it is one loop: an element times the cosine, plus the other element of its pair times the
  // sine.
  const int axis = attrs.flag("interleaved") ? -1 : -2;
  Ints split = x.shape().to_ints();
  split.back() = axis == -1 ? half : 2;
  split.push_back(axis == -1 ? 2 : half);
  if (x.rank() == max_rank) {  // no room for another axis, so the first two are joined
    split[1] *= split[0];
    split.erase(split.begin());
  }
  const Tensor pairs = reshape(x, split);
  const Tensor sign = cast(iota({2}, 0, x.device()), x.dtype()) * 2 - 1;
  const Tensor other = flip(pairs, {axis}) * (axis == -1 ? sign : unsqueeze(sign, 1));
  const Tensor y = pairs * unsqueeze(cos(angle), axis) + other * unsqueeze(sin(angle), axis);
  return cast(reshape(y, x.shape().to_ints()), in[0].dtype());
}

RefArray rotary_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape& shape = in[0].shape;
  const int64_t t = shape[-2], d = shape[-1], half = d / 2;
  RefArray y(shape);
  for (int64_t row = 0; half > 0 && row < shape.size() / d; ++row)
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(d);
      const double angle = in[1][row % t] * std::pow(attrs.number("base"), exponent);
      const bool neighbours = attrs.flag("interleaved");
      const int64_t first = row * d + (neighbours ? 2 * i : i), second = first + (neighbours ? 1 : half);
      y[first] = in[0][first] * std::cos(angle) - in[0][second] * std::sin(angle);
      y[second] = in[0][second] * std::cos(angle) + in[0][first] * std::sin(angle);
    }
  return y;
}

Attrs rotary_attrs(const RotaryOptions& o) { return {{"base", o.base}, {"interleaved", o.interleaved}}; }

}  // namespace

ATHANOR_OPS(rotary) {
  const Sample five{{5}, 0, 40, DType::i64};
  define_op(
      {.name = "rotary_embedding",
       .doc = "x [..., T, D], positions i64 [T]: the i-th pair of each row turned by position * base^(-2i/D)",
       .arity = 2,
       .infer = rotary_infer,
       // The transpose of a rotation is the rotation by the opposite angle.
       .grad =
           [](const GradArgs& a) {
             return std::vector{apply(find_op("rotary_embedding"), {a.grad, -a.inputs[1]}, a.attrs),
                                Tensor()};
           },
       .decompose = rotary_decompose,
       .reference = rotary_reference,
       .cases = {{{{{5, 6}}, five}, rotary_attrs({})},
                 {{{{2, 3, 5, 4}}, five}, rotary_attrs({.base = 500, .interleaved = true})},
                 {{{{5, 0}}, five}, rotary_attrs({})},
                 {{{{2, 2, 1, 1, 1, 1, 5, 4}}, five}, rotary_attrs({})}},
       .flops = [](auto, const TensorType& y, const auto&) { return 3 * y.shape.size(); },
       // An angle of 40 has 40 times the rounding error of 1.
       .tolerance = 40});
}

Tensor rotary_embedding(Operand x, const Tensor& positions, const RotaryOptions& options) {
  static const Op& op = find_op("rotary_embedding");
  return in_call(
      "rotary_embedding",
      [&] {
        const Tensor value = as_tensor(x);
        if (value.rank() < 2)
          throw Error(ErrorCode::shape, fmt::format("x is {}", to_string(value.shape())), {},
                      "It is [..., T, D] with an even D");
        const Tensor at = positions.defined() ? positions : iota({value.size(-2)}, 0, value.device());
        return apply(op, {value, is_int(at.dtype()) ? cast(at, DType::i64) : at}, rotary_attrs(options));
      },
      x);
}

}  // namespace athanor
