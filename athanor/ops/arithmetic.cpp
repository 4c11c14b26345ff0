// Elementwise ops that are composed of others.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "athanor/graph/whole_number.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"

namespace athanor {
namespace {

using Rule = Tensor (*)(const Tensor& x, const Attrs&);
using Value = double (*)(double x, const Attrs&);

void define(const char* name, const char* doc, Rule decompose, Value value, UnaryGrad grad = {},
            double low = -4, double high = 4, CastPolicy cast_policy = CastPolicy::promote) {
  define_composite({.name = name,
                    .doc = doc,
                    .decompose = decompose,
                    .value = value,
                    .grad = std::move(grad),
                    .low = low,
                    .high = high,
                    .cast_policy = cast_policy});
}

Tensor no_gradient(const Tensor&, const Tensor&, const Tensor& dy) { return constant_like(0, dy); }

// Kahan's corrections for the rounding of 1 + x and of exp(x).
Tensor accurate_log1p(const Tensor& x, const Attrs&) {
  const Tensor u = x + 1, plain = log(u);
  return where(equal(u, 1), x, where(equal(u, x), plain, plain * x / (u - 1)));
}

Tensor accurate_expm1(const Tensor& x, const Attrs&) {
  const Tensor u = exp(x), y = u - 1;
  return where(equal(u, 1), x, where(equal(y, -1) | equal(y, u), y, y * x / log(u)));
}

Tensor round_half_even(const Tensor& x, const Attrs&) {
  const Tensor below = floor(x), rest = x - below, above = below + 1;
  const Tensor even = where(equal(mod(below, 2), 0), below, above);
  return where(less(rest, 0.5), below, where(less(0.5, rest), above, even));
}

void define_rounding() {
  define(
      "ceil", "the smallest integer not below x", [](const Tensor& x, const Attrs&) { return -floor(-x); },
      [](double x, const Attrs&) { return std::ceil(x); }, no_gradient);
  define(
      "trunc", "x rounded towards zero",
      [](const Tensor& x, const Attrs&) { return where(less(x, 0), -floor(-x), floor(x)); },
      [](double x, const Attrs&) { return std::trunc(x); }, no_gradient);
  define(
      "round", "the nearest integer, the even one of two", round_half_even,
      [](double x, const Attrs&) { return std::nearbyint(x); }, no_gradient);
}

std::vector<OpCase> one_input_cases(const Attrs& attrs = {}) {
  std::vector<OpCase> cases;
  for (const Shape& shape : test_shapes()) cases.push_back({{{shape}}, attrs});
  return cases;
}

void define_others() {
  define_op({.name = "sign",
             .doc = "-1, 0 or 1, as x is negative, zero or positive",
             .dtypes = number_dtypes(),
             .infer = same_type(Accept::numbers),
             .grad = [](const GradArgs& a) { return std::vector{constant_like(0, a.grad)}; },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs&) {
                   return where(less(0, in[0]), constant_like(1, in[0]),
                                where(less(in[0], 0), constant_like(-1, in[0]), 0));
                 },
             .reference =
                 [](std::span<const RefArray> in, const Attrs&) {
                   return map(in[0], [](double x) { return static_cast<double>((x > 0) - (x < 0)); });
                 },
             .cases = one_input_cases()});
  define_op({.name = "clamp",
             .doc = "x within [low, high]; the gradient is 0 outside",
             .infer = same_type(Accept::floats),
             .grad =
                 [](const GradArgs& a) {
                   const Tensor& x = a.inputs[0];
                   const Tensor inside =
                       less_equal(a.attrs.number("low"), x) & less_equal(x, a.attrs.number("high"));
                   return std::vector{where(inside, a.grad, 0)};
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   return maximum(minimum(in[0], attrs.number("high")), attrs.number("low"));
                 },
             .reference =
                 [](std::span<const RefArray> in, const Attrs& attrs) {
                   return map(in[0], [&](double x) {
                     return std::max(std::min(x, attrs.number("high")), attrs.number("low"));
                   });
                 },
             .cases = one_input_cases({{"low", -0.75}, {"high", 1.0}})});
  define_op({.name = "detach",
             .doc = "x itself, through which no gradient flows",
             .dtypes = all_dtypes(),
             .infer = same_type(Accept::all),
             .decompose = [](const std::vector<Tensor>& in, const Attrs&) { return in[0]; },
             .reference = [](std::span<const RefArray> in, const Attrs&) { return in[0]; },
             .cases = one_input_cases(),
             .differentiable = false});
}

// x to an integer power, by repeated squaring.
Tensor whole_power(const Tensor& x, int64_t exponent) {
  if (exponent == 0) return ones_like(x);
  if (exponent == 1) return x;
  const Tensor half = whole_power(x, exponent / 2);
  return exponent % 2 == 0 ? half * half : half * half * x;
}

}  // namespace

ATHANOR_OPS(arithmetic) {
  define(
      "square", "x * x", [](const Tensor& x, const Attrs&) { return x * x; },
      [](double x, const Attrs&) { return x * x; });
  define(
      "reciprocal", "1 / x", [](const Tensor& x, const Attrs&) { return 1 / x; },
      [](double x, const Attrs&) { return 1 / x; },
      [](const Tensor&, const Tensor& y, const Tensor& dy) { return -dy * y * y; }, 0.25, 4,
      CastPolicy::deny);
  define(
      "rsqrt", "1 / sqrt(x)", [](const Tensor& x, const Attrs&) { return 1 / sqrt(x); },
      [](double x, const Attrs&) { return 1 / std::sqrt(x); },
      [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * -0.5 * (y * y * y); }, 0.25, 4,
      CastPolicy::deny);
  define(
      "log1p", "log(1 + x), accurate near 0", accurate_log1p,
      [](double x, const Attrs&) { return std::log1p(x); },
      [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / (1 + x); }, -0.5, 3,
      CastPolicy::deny);
  define(
      "expm1", "exp(x) - 1, accurate near 0", accurate_expm1,
      [](double x, const Attrs&) { return std::expm1(x); },
      [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * (y + 1); }, -4, 4, CastPolicy::deny);
  define_rounding();
  define_others();
}

Tensor square(Operand x) {
  static const Op& op = find_op("square");
  const SourceScope scope(x.where());
  need("square", x);
  const Tensor value = as_tensor(x);
  return is_float(value.dtype()) ? apply(op, {value}) : value * value;
}
Tensor reciprocal(Operand x) {
  static const Op& op = find_op("reciprocal");
  return of_float(op, x);
}
Tensor rsqrt(Operand x) {
  static const Op& op = find_op("rsqrt");
  return of_float(op, x);
}
Tensor log1p(Operand x) {
  static const Op& op = find_op("log1p");
  return of_float(op, x);
}
Tensor expm1(Operand x) {
  static const Op& op = find_op("expm1");
  return of_float(op, x);
}
Tensor sign(Operand x) {
  static const Op& op = find_op("sign");
  const SourceScope scope(x.where());
  return apply(op, {as_tensor(x)});
}
Tensor ceil(Operand x) {
  static const Op& op = find_op("ceil");
  need("ceil", x);
  return !x.is_number() && !is_float(x->dtype()) ? x.tensor() : of_float(op, x);
}
Tensor trunc(Operand x) {
  static const Op& op = find_op("trunc");
  need("trunc", x);
  return !x.is_number() && !is_float(x->dtype()) ? x.tensor() : of_float(op, x);
}
Tensor round(Operand x) {
  static const Op& op = find_op("round");
  need("round", x);
  return !x.is_number() && !is_float(x->dtype()) ? x.tensor() : of_float(op, x);
}
Tensor detach(Operand x) {
  static const Op& op = find_op("detach");
  const SourceScope scope(x.where());
  return apply(op, {as_tensor(x)});
}

Tensor clamp(Operand x, double low, double high) {
  static const Op& op = find_op("clamp");
  return in_call(
      "clamp",
      [&] {
        const Tensor value = as_tensor(x);
        if (!(low <= high))
          throw Error(ErrorCode::value, fmt::format("the range [{}, {}] is empty", low, high), {},
                      "low comes first");
        if (is_float(value.dtype())) return apply(op, {value}, {{"low", low}, {"high", high}});
        Tensor result = value;
        visit_dtype(value.dtype(), [&](auto tag) {
          using T = decltype(tag);
          if constexpr (std::is_integral_v<T>) {
            constexpr auto lowest = static_cast<double>(std::numeric_limits<T>::lowest());
            constexpr auto highest = static_cast<double>(std::numeric_limits<T>::max());
            if (low > lowest) result = maximum(result, whole_number(std::ceil(std::min(low, highest))));
            if (high < highest) result = minimum(result, whole_number(std::floor(std::max(high, lowest))));
          }
        });
        return result;
      },
      x);
}

Tensor lerp(Operand a, Operand b, Operand weight) {
  const SourceScope scope(a.where());
  need("lerp", a, b, weight);
  return a + (b - a) * weight;
}

Tensor floor_divide(Operand a, Operand b) {
  return in_call(
      "floor_divide",
      [&] {
        const auto x = unified(a, b);
        const Tensor quotient = trunc_divide(x[0], x[1]);
        if (is_float(quotient.dtype())) return floor(div(x[0], x[1]));
        // If there is a remainder and the signs differ, truncation has rounded up.
        const Tensor rest = mod(x[0], x[1]);
        return quotient -
               cast(not_equal(rest, 0) & not_equal(less(rest, 0), less(x[1], 0)), quotient.dtype());
      },
      a, b);
}

Tensor remainder(Operand a, Operand b) {
  return in_call(
      "remainder",
      [&] {
        const auto x = unified(a, b);
        const Tensor rest = mod(x[0], x[1]);
        return where(not_equal(rest, 0) & not_equal(less(rest, 0), less(x[1], 0)), rest + x[1], rest);
      },
      a, b);
}

Tensor pow(Operand a, Operand b) {
  static const Op& op = find_op("pow");
  return in_call(
      "pow",
      [&] {
        const Autocast in_f32(Precision::f32);
        if (b.is_number() && !a.is_number()) {
          const double e = b.number();
          const bool whole = e == std::floor(e),
                     exact = is_float(a->dtype()) ? e >= 0 && e <= 4 : e >= 0 && e <= 63;
          if (whole && exact && a->dtype() != DType::b8) return whole_power(a, static_cast<int64_t>(e));
          if (e == 0.5) return sqrt(a);
          if (e == -1) return reciprocal(a);
          if (e == -0.5) return rsqrt(a);
        }
        auto x = unified(a, b);
        if (!is_float(x[0].dtype())) x = {cast(x[0], DType::f32), cast(x[1], DType::f32)};
        return apply(op, {x[0], x[1]});
      },
      a, b);
}

}  // namespace athanor
