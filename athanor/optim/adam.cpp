#include "athanor/optim/adam.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/base/error.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/optim/update.h"

namespace athanor::optim {
namespace {

// The numbers of a step, in this order. They depend on the step's number. If the host knows it, the
// corrections are computed here, in double precision.
enum Number : size_t {
  step_size,        // lr / (1 - beta1^t)
  root_correction,  // sqrt(1 - beta2^t)
  epsilon,
  new_mean,    // 1 - beta1
  old_square,  // beta2
  new_square,  // 1 - beta2
  decay,       // weight_decay; if decoupled, 1 - lr weight_decay
  number_count
};

template <class T>
T decayed(const T& p, const T& g, const std::vector<T>& n, const Attrs& attrs) {
  return attrs.flag("decay") ? T(g + n[decay] * p) : g;
}

std::vector<Attrs> with_decay() { return {{{"decay", false}}, {{"decay", true}}}; }

const Op& mean_op = define_update({.name = "adam_mean",
                                   .doc = "m' = m + (1 - beta1) (g + weight_decay p - m)",
                                   .tensors = 3,
                                   .numbers = number_count,
                                   .attrs = with_decay()},
                                  [](const auto& x, const auto& n, const Attrs& attrs) {
                                    return x[2] + n[new_mean] * (decayed(x[0], x[1], n, attrs) - x[2]);
                                  });

const Op& square_op = define_update({.name = "adam_square",
                                     .doc = "v' = beta2 v + (1 - beta2) (g + weight_decay p)^2",
                                     .tensors = 3,
                                     .numbers = number_count,
                                     .attrs = with_decay()},
                                    [](const auto& x, const auto& n, const Attrs& attrs) {
                                      const auto g = decayed(x[0], x[1], n, attrs);
                                      return n[old_square] * x[2] + n[new_square] * (g * g);
                                    });

const Op& step_op = define_update(
    {.name = "adam_step",
     .doc =
         "p' = p (decoupled decay: times 1 - lr weight_decay) - step_size m' / (sqrt(v') / correction + eps)",
     .tensors = 3,
     .numbers = number_count,
     .attrs = with_decay()},
    [](const auto& x, const auto& n, const Attrs& attrs) {
      using std::sqrt;
      auto p = x[0];
      if (attrs.flag("decay")) p = p * n[decay];
      return p - n[step_size] * x[1] / (sqrt(x[2]) / n[root_correction] + n[epsilon]);
    });

// 1 - beta^step. Through tanh, because the difference of 1 and a number near it has few digits.
Tensor without_power(double beta, const Tensor& step) {
  if (beta == 0) return ones_like(step);
  const Tensor half = tanh(step * (-0.5 * std::log(beta)));
  return 2 * half / (1 + half);
}

}  // namespace

Adam::Adam(const std::vector<ParamGroup>& groups, const AdamOptions& options, bool decoupled)
    : Optimizer(groups, options.lr, {"exp_avg", "exp_avg_sq"}), options_(options), decoupled_(decoupled) {
  const auto is_beta = [](double beta) { return beta >= 0 && beta < 1; };
  if (!is_beta(options.beta1) || !is_beta(options.beta2) || !(options.eps >= 0) ||
      !(options.weight_decay >= 0))
    throw Error(ErrorCode::value,
                fmt::format("Adam with betas {} and {}, eps {}, weight decay {}", options.beta1,
                            options.beta2, options.eps, options.weight_decay),
                {}, "Betas must be in [0, 1), the others not negative");
}

std::vector<double> Adam::numbers(const Rates& rates) const {
  const double t = static_cast<double>(rates.step);
  std::vector<double> n(number_count);
  n[step_size] = rates.lr / (1 - std::pow(options_.beta1, t));
  n[root_correction] = std::sqrt(1 - std::pow(options_.beta2, t));
  n[epsilon] = options_.eps;
  n[new_mean] = 1 - options_.beta1;
  n[old_square] = options_.beta2;
  n[new_square] = 1 - options_.beta2;
  n[decay] = decoupled_ ? 1 - rates.lr * rates.weight_decay : rates.weight_decay;
  return n;
}

Tensor Adam::numbers(const Rates& rates, const Tensor& step) const {
  std::vector<double> n = numbers(rates);
  n[step_size] = rates.lr;
  n[root_correction] = 1;
  const Tensor values = Tensor::from(from_doubles(DType::f32, {number_count}, std::span(n)), step.device());
  const Tensor place = iota({number_count}, 0, step.device());
  const Tensor sized =
      where(equal(place, int64_t{step_size}), values / without_power(options_.beta1, step), values);
  return where(equal(place, int64_t{root_correction}), sqrt(without_power(options_.beta2, step)), sized);
}

Tensor Adam::update(const Tensor& value, const Tensor& gradient, std::vector<Tensor>& state,
                    const Tensor& numbers, bool decays) const {
  const Attrs into_gradient{{"decay", decays && !decoupled_}};
  state[0] = apply(mean_op, {value, gradient, state[0], numbers}, into_gradient);
  state[1] = apply(square_op, {value, gradient, state[1], numbers}, into_gradient);
  return apply(step_op, {value, state[0], state[1], numbers}, {{"decay", decays && decoupled_}});
}

}  // namespace athanor::optim
