#include "athanor/train/weight_average.h"

#include <algorithm>
#include <utility>

#include "athanor/ops/elementwise.h"

namespace athanor {

WeightAverage::WeightAverage(std::vector<nn::Parameter> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  // Values of their own: memory that two places refer to cannot be updated in place.
  for (const nn::Parameter& parameter : parameters_)
    averages_.emplace_back(Tensor::from(parameter.value().to_host(), parameter.value().device()));
}

void WeightAverage::update(int64_t step) {
  const auto made = static_cast<double>(step);
  const double keep = std::min(decay_, (1 + made) / (10 + made));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &average = averages_[i].value(), &value = parameters_[i].value();
    const Tensor share = Tensor::scalar(1 - keep, value.dtype(), value.device());  // an input of the plan
    averages_[i].assign((average + share * (value - average)).detach());
  }
}

std::vector<nn::Variable> WeightAverage::variables() const { return {averages_.begin(), averages_.end()}; }

WeightAverage::Scope::Scope(WeightAverage* average) : average_(average) {
  if (average_ == nullptr) return;
  for (size_t i = 0; i < average_->parameters_.size(); ++i) {
    const nn::Parameter& parameter = average_->parameters_[i];
    before_.push_back(parameter.value());
    parameter.assign(average_->averages_[i].value());
  }
}

WeightAverage::Scope::~Scope() {
  if (average_ == nullptr) return;
  for (size_t i = 0; i < before_.size(); ++i) average_->parameters_[i].go_back(before_[i]);
}

std::vector<std::pair<std::string, Tensor>> WeightAverage::named() const {
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < parameters_.size(); ++i)
    named.emplace_back(parameters_[i].name(), averages_[i].value());
  return named;
}

nn::StateDict WeightAverage::state_dict() const { return nn::to_state_dict(named()); }

void WeightAverage::load_state_dict(const nn::StateDict& state) {
  std::vector<std::pair<std::string, TensorType>> wanted;
  for (const auto& [name, tensor] : named()) wanted.emplace_back(name, tensor.type());
  auto values = nn::from_state_dict(state, wanted, "the average of weights");
  for (size_t i = 0; i < averages_.size(); ++i) averages_[i].assign(std::move(values[i]));
}

}  // namespace athanor
