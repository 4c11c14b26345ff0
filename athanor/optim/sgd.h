// Stochastic gradient descent.
#pragma once
#include "athanor/optim/optimizer.h"

namespace athanor::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  // L2: added to the gradient
  bool nesterov = false;
};

/// With momentum, as in PyTorch (which differs from Sutskever et al. 2013 in where the rate enters):
///
///     g = gradient + weight_decay p
///     b = momentum b + (1 - dampening) g      (b = g in the first step with a gradient of this parameter)
///     p = p - lr (nesterov ? g + momentum b : b)
///
/// State: "momentum_buffer", when there is momentum.
class Sgd : public Optimizer {
 public:
  /// Throws Error(value) for options out of range, and for Nesterov momentum without momentum or with
  /// dampening.
  Sgd(const std::vector<ParamGroup>& groups, const SgdOptions& options = {});
  Sgd(std::vector<nn::Parameter> parameters, const SgdOptions& options = {})
      : Sgd(group(std::move(parameters)), options) {}

 protected:
  std::vector<double> numbers(const Rates& rates) const override;
  Tensor numbers(const Rates& rates, const Tensor& step) const override;
  Tensor update(const Tensor& value, const Tensor& gradient, std::vector<Tensor>& state,
                const Tensor& numbers, bool decays) const override;
  double default_weight_decay() const override { return options_.weight_decay; }

 private:
  SgdOptions options_;
};

}  // namespace athanor::optim
