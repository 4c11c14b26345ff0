#include "athanor/optim/sgd.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/optim/update.h"

namespace athanor::optim {
namespace {

// The numbers of a step, in this order.
enum Number : size_t {
  rate,
  decay,
  momentum,
  intake,
  number_count
};  // intake: 1 - dampening, and 1 in the first step

// The gradient with weight decay; works on tensors and on numbers.
template <class T>
T decayed(const T& p, const T& g, const std::vector<T>& n, const Attrs& attrs) {
  return attrs.flag("decay") ? T(g + n[decay] * p) : g;
}

std::vector<Attrs> with_decay() { return {{{"decay", false}}, {{"decay", true}}}; }

const Op& momentum_op =
    define_update({.name = "sgd_momentum",
                   .doc = "b' = momentum b + (1 - dampening) (g + weight_decay p)",
                   .tensors = 3,
                   .numbers = number_count,
                   .attrs = {{{"decay", false}, {"dampened", false}}, {{"decay", true}, {"dampened", true}}}},
                  [](const auto& x, const auto& n, const Attrs& attrs) {
                    auto g = decayed(x[0], x[1], n, attrs);
                    if (attrs.flag("dampened")) g = n[intake] * g;
                    return n[momentum] * x[2] + g;
                  });

const Op& step_op = define_update({.name = "sgd_step",
                                   .doc = "p' = p - lr (g + weight_decay p)",
                                   .tensors = 2,
                                   .numbers = number_count,
                                   .attrs = with_decay()},
                                  [](const auto& x, const auto& n, const Attrs& attrs) {
                                    return x[0] - n[rate] * decayed(x[0], x[1], n, attrs);
                                  });

const Op& nesterov_op =
    define_update({.name = "sgd_nesterov_step",
                   .doc = "p' = p - lr (g + weight_decay p + momentum b')",
                   .tensors = 3,
                   .numbers = number_count,
                   .attrs = with_decay()},
                  [](const auto& x, const auto& n, const Attrs& attrs) {
                    return x[0] - n[rate] * (decayed(x[0], x[1], n, attrs) + n[momentum] * x[2]);
                  });

}  // namespace

Sgd::Sgd(const std::vector<ParamGroup>& groups, const SgdOptions& options)
    : Optimizer(
          groups, options.lr,
          options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{}),
      options_(options) {
  if (!(options.momentum >= 0) || !(options.weight_decay >= 0))
    throw Error(
        ErrorCode::value,
        fmt::format("SGD with momentum {} and weight decay {}", options.momentum, options.weight_decay), {},
        "Neither may be negative");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw Error(ErrorCode::value, "Nesterov's momentum without momentum, or with dampening", {},
                "Set momentum, and dampening to 0");
}

std::vector<double> Sgd::numbers(const Rates& rates) const {
  return {rates.lr, rates.weight_decay, options_.momentum, rates.step == 1 ? 1 : 1 - options_.dampening};
}

Tensor Sgd::numbers(const Rates& rates, const Tensor& step) const {
  const std::vector<double> all = numbers(rates);
  const Tensor values = Tensor::from(from_doubles(DType::f32, {number_count}, std::span(all)), step.device());
  const Tensor place = iota({number_count}, 0, step.device());
  return where(equal(place, int64_t{intake}) & equal(step, 1), 1, values);
}

Tensor Sgd::update(const Tensor& value, const Tensor& gradient, std::vector<Tensor>& state,
                   const Tensor& numbers, bool decays) const {
  if (options_.momentum == 0) return apply(step_op, {value, gradient, numbers}, {{"decay", decays}});
  state[0] = apply(momentum_op, {value, gradient, state[0], numbers},
                   {{"decay", decays}, {"dampened", options_.dampening != 0}});
  if (options_.nesterov) return apply(nesterov_op, {value, gradient, state[0], numbers}, {{"decay", decays}});
  return apply(step_op, {value, state[0], numbers}, {{"decay", false}});
}

}  // namespace athanor::optim
