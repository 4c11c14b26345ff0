// An average of a model's weights over the steps (--ema).
#pragma once
#include <memory>
#include <vector>

#include "athanor/nn/module.h"

namespace athanor {

/// Exponential moving averages of parameters: a = decay a + (1 - decay) p after each step; at first decay is
/// at most (1 + step) / (10 + step), so that the initial values soon lose weight. Buffers (running
/// statistics) are not averaged. Polyak, Juditsky (1992); TensorFlow's ExponentialMovingAverage.
class WeightAverage {
 public:
  /// Begins with the parameters as they are.
  WeightAverage(std::vector<nn::Parameter> parameters, double decay);
  /// Extends the graph by an update after the optimizer's step, in the same plan. `step`: how many were made
  /// before.
  void update(int64_t step);
  /// The averages, for StepMark.
  std::vector<nn::Variable> variables() const;

  /// While it exists, the parameters have the averages as their values.
  class Scope {
   public:
    explicit Scope(WeightAverage* average);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WeightAverage* average_;
    std::vector<Tensor> before_;
  };

  nn::StateDict state_dict() const;
  /// Throws Error(name|shape). After an error nothing has changed.
  void load_state_dict(const nn::StateDict& state);

 private:
  std::vector<std::pair<std::string, Tensor>> named() const;
  std::vector<nn::Parameter> parameters_;
  std::vector<nn::Buffer> averages_;
  double decay_;
};

}  // namespace athanor
