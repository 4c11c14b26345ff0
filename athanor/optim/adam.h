// Adam and AdamW.
#pragma once
#include "athanor/optim/optimizer.h"

namespace athanor::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
};

/// Kingma, Ba (2015); in step t of those with a gradient of the parameter, as in PyTorch:
///
///     g = gradient + weight_decay p
///     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///     p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
///
/// State: "exp_avg" (m), "exp_avg_sq" (v).
class Adam : public Optimizer {
 public:
  /// Throws Error(value) for options out of range.
  Adam(const std::vector<ParamGroup>& groups, const AdamOptions& options = {})
      : Adam(groups, options, false) {}
  Adam(std::vector<nn::Parameter> parameters, const AdamOptions& options = {})
      : Adam(group(std::move(parameters)), options) {}

 protected:
  Adam(const std::vector<ParamGroup>& groups, const AdamOptions& options, bool decoupled);
  std::vector<double> numbers(const Rates& rates) const override;
  Tensor numbers(const Rates& rates, const Tensor& step) const override;
  Tensor update(const Tensor& value, const Tensor& gradient, std::vector<Tensor>& state,
                const Tensor& numbers, bool decays) const override;
  double default_weight_decay() const override { return options_.weight_decay; }

 private:
  AdamOptions options_;
  bool decoupled_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
};

/// Adam with decoupled weight decay: p = (1 - lr weight_decay) p before the update; nothing is added to the
/// gradient. Loshchilov, Hutter (2019).
class AdamW : public Adam {
 public:
  AdamW(const std::vector<ParamGroup>& groups, const AdamWOptions& o = {})
      : Adam(groups, {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay}, true) {}
  AdamW(std::vector<nn::Parameter> parameters, const AdamWOptions& options = {})
      : AdamW(group(std::move(parameters)), options) {}
};

}  // namespace athanor::optim
