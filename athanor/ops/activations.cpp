#include "athanor/ops/activations.h"

#include <cmath>
#include <numbers>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"

namespace athanor {
namespace {

const double root_half = std::sqrt(0.5);
const double root_two_by_pi = std::sqrt(2 / std::numbers::pi);
const double normal_density_at_0 = 1 / std::sqrt(2 * std::numbers::pi);

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// log(1 + u) for u in [0, 1], where 1 + u may round to 1.
Tensor log_of_1_plus(const Tensor& u) {
  const Tensor v = u + 1;
  return where(equal(v, 1), u, log(v) * u / (v - 1));
}

// Few operations: each runs for every element.
Tensor gelu_decompose(const Tensor& x, const Attrs&) {
  const Tensor half = 0.5 * x;
  return half + half * erf(root_half * x);
}
Tensor gelu_grad(const Tensor& x, const Tensor&, const Tensor& dy) {
  return dy * (0.5 + 0.5 * erf(root_half * x) + x * (normal_density_at_0 * exp(-0.5 * x * x)));
}

// GELU's approximation is x / 2 (1 + tanh(z)), with z = sqrt(2 / pi) (x + 0.044715 x^3). Returns tanh(z).
Tensor tanh_of_gelu(const Tensor& x) {
  return tanh(x * (root_two_by_pi + root_two_by_pi * 0.044715 * (x * x)));
}
Tensor gelu_tanh_decompose(const Tensor& x, const Attrs&) {
  const Tensor half = 0.5 * x;
  return half + half * tanh_of_gelu(x);
}
Tensor gelu_tanh_grad(const Tensor& x, const Tensor&, const Tensor& dy) {
  const Tensor t = tanh_of_gelu(x);
  const Tensor half_slope = 0.5 * root_two_by_pi + 0.5 * root_two_by_pi * 3 * 0.044715 * (x * x);  // of z
  // In this order: x times the slope overflows for large x, where 1 - t * t is 0.
  return dy * (0.5 + 0.5 * t + x * (1 - t * t) * half_slope);
}

void define_rectifiers() {
  define_composite(
      {.name = "relu",
       .doc = "max(x, 0); the gradient at 0 is 0",
       .decompose = [](const Tensor& x, const Attrs&) { return maximum(x, 0); },
       .value = [](double x, const Attrs&) { return std::max(x, 0.0); },
       // Computed from the output, so that x need not be kept.
       .grad = [](const Tensor&, const Tensor& y, const Tensor& dy) { return where(less(0, y), dy, 0); }});
  define_composite({.name = "leaky_relu",
                    .doc = "x where x > 0, slope * x elsewhere",
                    .decompose = [](const Tensor& x,
                                    const Attrs& a) { return where(less(0, x), x, x * a.number("slope")); },
                    .value = [](double x, const Attrs& a) { return x > 0 ? x : x * a.number("slope"); },
                    .attrs = {{{"slope", 0.01}}, {{"slope", 0.3}}}});
  define_composite(
      {.name = "elu",
       .doc = "x where x > 0, alpha * (exp(x) - 1) elsewhere",
       .decompose =
           [](const Tensor& x, const Attrs& a) {
             // Uses the smaller of x and 0, so that the unused branch does not overflow.
             return where(less(0, x), x, a.number("alpha") * expm1(minimum(x, 0)));
           },
       .value = [](double x, const Attrs& a) { return x > 0 ? x : a.number("alpha") * std::expm1(x); },
       .attrs = {{{"alpha", 1.0}}, {{"alpha", 0.5}}}});
}

void define_smooth() {
  define_composite({.name = "gelu",
                    .doc = "x * P(X <= x) for a standard normal X, by erf",
                    .decompose = gelu_decompose,
                    .value = [](double x, const Attrs&) { return 0.5 * x * std::erfc(-x * root_half); },
                    .grad = gelu_grad});
  define_composite({.name = "gelu_tanh",
                    .doc = "GELU's approximation by tanh",
                    .decompose = gelu_tanh_decompose,
                    .value =
                        [](double x, const Attrs&) {
                          return 0.5 * x * (1 + std::tanh(root_two_by_pi * (x + 0.044715 * x * x * x)));
                        },
                    .grad = gelu_tanh_grad});
  define_composite(
      {.name = "sigmoid",
       .doc = "1 / (1 + exp(-x))",
       .decompose = [](const Tensor& x, const Attrs&) { return 1 / (1 + exp(-x)); },
       .value = [](double x, const Attrs&) { return logistic(x); },
       .grad = [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * (y * (1 - y)); },
       .low = -10,
       .high = 10});
  define_composite({.name = "silu",
                    .doc = "x * sigmoid(x)",
                    .decompose = [](const Tensor& x, const Attrs&) { return x * sigmoid(x); },
                    .value = [](double x, const Attrs&) { return x * logistic(x); },
                    .grad =
                        [](const Tensor& x, const Tensor&, const Tensor& dy) {
                          const Tensor s = sigmoid(x);
                          return dy * (s * (1 + x * (1 - s)));
                        }});
  define_composite(
      {.name = "softplus",
       .doc = "log(1 + exp(x)), without overflow",
       .decompose = [](const Tensor& x, const Attrs&) { return maximum(x, 0) + log_of_1_plus(exp(-abs(x))); },
       .value = [](double x, const Attrs&) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
       .grad = [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * sigmoid(x); },
       .low = -20,
       .high = 20,
       .cast_policy = CastPolicy::deny});
  define_composite(
      {.name = "log_sigmoid",
       .doc = "log(sigmoid(x)), without overflow",
       .decompose = [](const Tensor& x, const Attrs&) { return -softplus(-x); },
       .value = [](double x, const Attrs&) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); },
       .grad = [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * sigmoid(-x); },
       .low = -20,
       .high = 20});
}

void define_piecewise() {
  define_composite({.name = "hard_sigmoid",
                    .doc = "clamp(x / 6 + 1/2, 0, 1)",
                    .decompose = [](const Tensor& x, const Attrs&) { return clamp(x / 6 + 0.5, 0, 1); },
                    .value = [](double x, const Attrs&) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); },
                    .low = -5,
                    .high = 5});
  define_composite({.name = "hard_swish",
                    .doc = "x * clamp(x / 6 + 1/2, 0, 1)",
                    .decompose = [](const Tensor& x, const Attrs&) { return x * clamp(x / 6 + 0.5, 0, 1); },
                    .value = [](double x, const Attrs&) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); },
                    .low = -5,
                    .high = 5});
}

Tensor activation(const Op& op, const Operand& x, Attrs attrs = {}) {
  const SourceScope scope(x.where());
  need(op.name, x);
  return apply(op, {as_float(x)}, std::move(attrs));
}

}  // namespace

ATHANOR_OPS(activations) {
  define_rectifiers();
  define_smooth();
  define_piecewise();
}

Tensor relu(Operand x) {
  static const Op& op = find_op("relu");
  return activation(op, x);
}
Tensor leaky_relu(Operand x, double slope) {
  static const Op& op = find_op("leaky_relu");
  return activation(op, x, {{"slope", slope}});
}
Tensor elu(Operand x, double alpha) {
  static const Op& op = find_op("elu");
  return activation(op, x, {{"alpha", alpha}});
}
Tensor gelu(Operand x) {
  static const Op& op = find_op("gelu");
  return activation(op, x);
}
Tensor gelu_tanh(Operand x) {
  static const Op& op = find_op("gelu_tanh");
  return activation(op, x);
}
Tensor silu(Operand x) {
  static const Op& op = find_op("silu");
  return activation(op, x);
}
Tensor sigmoid(Operand x) {
  static const Op& op = find_op("sigmoid");
  return activation(op, x);
}
Tensor log_sigmoid(Operand x) {
  static const Op& op = find_op("log_sigmoid");
  return activation(op, x);
}
Tensor softplus(Operand x) {
  static const Op& op = find_op("softplus");
  return activation(op, x);
}
Tensor hard_sigmoid(Operand x) {
  static const Op& op = find_op("hard_sigmoid");
  return activation(op, x);
}
Tensor hard_swish(Operand x) {
  static const Op& op = find_op("hard_swish");
  return activation(op, x);
}

}  // namespace athanor
