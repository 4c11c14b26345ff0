#include "athanor/train/step_mark.h"

#include <algorithm>

namespace athanor {

StepMark::StepMark(const nn::Module& model, optim::Optimizer& optimizer, optim::GradScaler* scaler,
                   const std::vector<nn::Variable>& others)
    : variables_(others), optimizer_(optimizer), scaler_(scaler) {
  for (const auto& [name, parameter] : model.named_parameters()) variables_.push_back(parameter);
  for (const auto& [name, buffer] : model.named_buffers()) variables_.push_back(buffer);
}

void StepMark::set() {
  values_.clear();
  for (const nn::Variable& variable : variables_) values_.emplace_back(variable.value());
  state_ = optimizer_.mark();
  if (scaler_ != nullptr) scale_ = scaler_->mark();
  random_ = default_generator().state();
}

bool StepMark::go_back() const {
  std::vector<Tensor> values;
  for (const nn::ValueMark& value : values_) values.push_back(value.value());
  if (!std::ranges::all_of(values, &Tensor::defined) || !optimizer_.go_back(state_)) return false;
  if (scaler_ != nullptr && !scaler_->go_back(scale_)) return false;
  for (size_t i = 0; i < variables_.size(); ++i) variables_[i].go_back(values[i]);
  optimizer_.zero_grad();
  default_generator().restore(random_);
  return true;
}

}  // namespace athanor
