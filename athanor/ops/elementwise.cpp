// Elementwise primitives: arithmetic.
#include "athanor/ops/elementwise.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "athanor/ops/define.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

struct BinaryPrimitive {
  std::string name, doc;
  Prim prim;
  double (*value)(double, double);
  std::function<std::vector<Tensor>(const GradArgs&)> grad;
  Accept accept = Accept::numbers;
  double low_a = -2, high_a = 2, low_b = -2, high_b = 2;  // the range of inputs in tests
  CastPolicy cast_policy = CastPolicy::promote;
};

void define_primitive(BinaryPrimitive op) {
  std::vector<OpCase> cases;
  for (const Shape& shape : test_shapes())
    cases.push_back({{{shape, op.low_a, op.high_a}, {shape, op.low_b, op.high_b}}});
  define_op({.name = op.name,
             .doc = op.doc,
             .prim = op.prim,
             .arity = 2,
             .dtypes = op.accept == Accept::floats ? float_dtypes() : number_dtypes(),
             .infer = same_type(op.accept),
             .grad = op.grad,
             .reference = [value = op.value](std::span<const RefArray> in,
                                             const Attrs&) { return map(in[0], in[1], value); },
             .cases = std::move(cases),
             .cast_policy = op.cast_policy});
}

// Equal operands share the gradient equally.
std::vector<Tensor> extremum_grad(const GradArgs& a, bool largest) {
  const Tensor &x = a.inputs[0], &y = a.inputs[1], &dy = a.grad;
  const Tensor none = constant_like(0, dy), half = dy * 0.5;
  const Tensor tie = equal(x, y), first = largest ? less(y, x) : less(x, y),
               second = largest ? less(x, y) : less(y, x);
  return {where(first, dy, where(tie, half, none)), where(second, dy, where(tie, half, none))};
}

double propagate_nan(double a, double b, double chosen) {
  return std::isnan(a) || std::isnan(b) ? NAN : chosen;
}

std::vector<Tensor> pow_grad(const GradArgs& a) {
  const Tensor &x = a.inputs[0], &e = a.inputs[1];
  Tensor dx, de;
  // 0^0 and 0 log 0 take their limits.
  if (a.needed[0]) dx = a.grad * where(equal(e, 0), 0, e * pow(x, e - 1));
  if (a.needed[1]) de = a.grad * where(equal(x, 0), 0, a.output * log(x));
  return {dx, de};
}

std::vector<Tensor> div_grad(const GradArgs& a) {
  return {a.needed[0] ? a.grad / a.inputs[1] : Tensor(),
          a.needed[1] ? -a.grad * a.output / a.inputs[1] : Tensor()};
}

std::vector<Tensor> mod_grad(const GradArgs& a) {
  return {a.grad, a.needed[1] ? -a.grad * trunc(a.inputs[0] / a.inputs[1]) : Tensor()};
}

void define_functions() {
  const double two_by_root_pi = 2 / std::sqrt(std::numbers::pi);
  define_primitive(UnaryPrimitive{"neg", "-x", Prim::neg, [](double x) { return -x; },
                                  [](const Tensor&, const Tensor&, const Tensor& dy) { return -dy; }, -2, 2,
                                  Accept::numbers});
  define_primitive(UnaryPrimitive{"exp", "e to the power of x", Prim::exp,
                                  [](double x) { return std::exp(x); },
                                  [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * y; }, -4,
                                  4, Accept::floats, CastPolicy::deny});
  define_primitive(UnaryPrimitive{"log", "the natural logarithm", Prim::log,
                                  [](double x) { return std::log(x); },
                                  [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / x; },
                                  0.1, 4, Accept::floats, CastPolicy::deny});
  define_primitive(UnaryPrimitive{
      "sin", "the sine of an angle in radians", Prim::sin, [](double x) { return std::sin(x); },
      [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * cos(x); }, -10, 10});
  define_primitive(UnaryPrimitive{
      "cos", "the cosine of an angle in radians", Prim::cos, [](double x) { return std::cos(x); },
      [](const Tensor& x, const Tensor&, const Tensor& dy) { return -dy * sin(x); }, -10, 10});
  define_primitive(UnaryPrimitive{
      "tanh", "the hyperbolic tangent", Prim::tanh, [](double x) { return std::tanh(x); },
      [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * (1 - y * y); }, -4, 4});
  define_primitive(UnaryPrimitive{"erf", "the error function 2/sqrt(pi) * integral of exp(-t^2) from 0 to x",
                                  Prim::erf, [](double x) { return std::erf(x); },
                                  [two_by_root_pi](const Tensor& x, const Tensor&, const Tensor& dy) {
                                    return dy * (two_by_root_pi * exp(-(x * x)));
                                  },
                                  -4, 4});
  define_primitive(
      UnaryPrimitive{"sqrt", "the square root", Prim::sqrt, [](double x) { return std::sqrt(x); },
                     [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * 0.5 / y; }, 0.1, 4});
  define_primitive(UnaryPrimitive{
      "floor", "the largest integer not above x", Prim::floor, [](double x) { return std::floor(x); },
      [](const Tensor&, const Tensor&, const Tensor&) { return Tensor(); }, -10, 10});
  define_primitive(UnaryPrimitive{
      "abs", "the magnitude", Prim::abs, [](double x) { return std::abs(x); },
      [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * sign(x); }, -2, 2, Accept::numbers});
}

void define_arithmetic() {
  define_primitive(BinaryPrimitive{"add", "a + b", Prim::add, [](double a, double b) { return a + b; },
                                   [](const GradArgs& a) {
                                     return std::vector{a.grad, a.grad};
                                   }});
  define_primitive(BinaryPrimitive{"sub", "a - b", Prim::sub, [](double a, double b) { return a - b; },
                                   [](const GradArgs& a) {
                                     return std::vector{a.grad, a.needed[1] ? -a.grad : Tensor()};
                                   }});
  define_primitive(BinaryPrimitive{"mul", "a * b", Prim::mul, [](double a, double b) { return a * b; },
                                   [](const GradArgs& a) {
                                     return std::vector{a.needed[0] ? a.grad * a.inputs[1] : Tensor(),
                                                        a.needed[1] ? a.grad * a.inputs[0] : Tensor()};
                                   }});
  define_primitive(BinaryPrimitive{"div", "a / b; of integers truncated, and 0 where b is 0", Prim::div,
                                   [](double a, double b) { return a / b; }, div_grad, Accept::numbers, -9, 9,
                                   1, 4});
  define_primitive(BinaryPrimitive{"mod", "C's fmod(a, b); of integers a % b, and 0 where b is 0", Prim::mod,
                                   [](double a, double b) { return std::fmod(a, b); }, mod_grad,
                                   Accept::numbers, -9, 9, 1, 4});
  define_primitive(BinaryPrimitive{"pow", "a to the power of b", Prim::pow,
                                   [](double a, double b) { return std::pow(a, b); }, pow_grad,
                                   Accept::floats, 0.1, 3, -2, 2, CastPolicy::deny});
  define_primitive(BinaryPrimitive{"max", "the larger of a and b, NaN if either is", Prim::max,
                                   [](double a, double b) { return propagate_nan(a, b, std::max(a, b)); },
                                   [](const GradArgs& a) { return extremum_grad(a, true); }});
  define_primitive(BinaryPrimitive{"min", "the smaller of a and b, NaN if either is", Prim::min,
                                   [](double a, double b) { return propagate_nan(a, b, std::min(a, b)); },
                                   [](const GradArgs& a) { return extremum_grad(a, false); }});
}

Tensor of_number(const Op& op, const Operand& x) {
  const SourceScope scope(x.where());
  need(op.name, x);
  return apply(op, {as_tensor(x)});
}

}  // namespace

ATHANOR_OPS(elementwise) {
  define_functions();
  define_arithmetic();
  define_op({.name = "cast",
             .doc = "x converted to another dtype: floats to integers truncate, then wrap; to bool: x != 0",
             .prim = Prim::cast,
             .dtypes = all_dtypes(),
             .infer =
                 [](std::span<const TensorType> in, const Attrs& attrs) {
                   return TensorType{attrs.dtype("dtype"), in[0].shape, {}};
                 },
             .grad = [](const GradArgs& a) { return std::vector{cast(a.grad, a.inputs[0].dtype())}; },
             .reference = [](std::span<const RefArray> in, const Attrs&) { return in[0]; },
             .cases =
                 [] {
                   std::vector<OpCase> cases;
                   for (DType t : all_dtypes()) cases.push_back({{{{17}, -5, 5}}, {{"dtype", t}}});
                   cases.push_back({{{{3, 0}}}, {{"dtype", DType::f32}}});
                   return cases;
                 }()});
}

Tensor neg(Operand x) {
  static const Op& op = find_op("neg");
  return of_number(op, x);
}
Tensor exp(Operand x) {
  static const Op& op = find_op("exp");
  return of_float(op, x);
}
Tensor log(Operand x) {
  static const Op& op = find_op("log");
  return of_float(op, x);
}
Tensor sin(Operand x) {
  static const Op& op = find_op("sin");
  return of_float(op, x);
}
Tensor cos(Operand x) {
  static const Op& op = find_op("cos");
  return of_float(op, x);
}
Tensor tanh(Operand x) {
  static const Op& op = find_op("tanh");
  return of_float(op, x);
}
Tensor erf(Operand x) {
  static const Op& op = find_op("erf");
  return of_float(op, x);
}
Tensor sqrt(Operand x) {
  static const Op& op = find_op("sqrt");
  return of_float(op, x);
}
Tensor floor(Operand x) {
  static const Op& op = find_op("floor");
  need("floor", x);
  return !x.is_number() && !is_float(x->dtype()) ? x.tensor() : of_float(op, x);
}
Tensor abs(Operand x) {
  static const Op& op = find_op("abs");
  return of_number(op, x);
}

Tensor cast(Operand x, DType dtype) {
  static const Op& op = find_op("cast");
  const SourceScope scope(x.where());
  need("cast", x);
  const Tensor value = as_tensor(x);
  return value.dtype() == dtype ? value : apply(op, {value}, {{"dtype", dtype}});
}

Tensor add(Operand a, Operand b) {
  static const Op& op = find_op("add");
  return of_pair(op, "add", a, b);
}
Tensor sub(Operand a, Operand b) {
  static const Op& op = find_op("sub");
  return of_pair(op, "sub", a, b);
}
Tensor mul(Operand a, Operand b) {
  static const Op& op = find_op("mul");
  return of_pair(op, "mul", a, b);
}
Tensor mod(Operand a, Operand b) {
  static const Op& op = find_op("mod");
  return of_pair(op, "mod", a, b);
}
Tensor trunc_divide(Operand a, Operand b) {
  static const Op& op = find_op("div");
  const Tensor quotient = of_pair(op, "trunc_divide", a, b);
  return is_float(quotient.dtype()) ? trunc({quotient, a.where()}) : quotient;
}
Tensor maximum(Operand a, Operand b) {
  static const Op& op = find_op("max");
  return of_pair(op, "maximum", a, b);
}
Tensor minimum(Operand a, Operand b) {
  static const Op& op = find_op("min");
  return of_pair(op, "minimum", a, b);
}

Tensor div(Operand a, Operand b) {
  static const Op& op = find_op("div");
  return in_call(
      "div",
      [&] {
        auto x = unified(a, b);
        if (!is_float(x[0].dtype())) x = {cast(x[0], DType::f32), cast(x[1], DType::f32)};
        return apply(op, {x[0], x[1]});
      },
      a, b);
}

}  // namespace athanor
