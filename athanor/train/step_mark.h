// The state of a run before a step.
#pragma once
#include <vector>

#include "athanor/nn/module.h"
#include "athanor/ops/random.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"

namespace athanor {

/// Undoes what a step changes in model, optimizer and random numbers, if the step is given up (Interrupted)
/// before it has changed anything in memory: while its kernels are chosen and compiled, or before the
/// updates.
class StepMark {
 public:
  /// `scaler` may be nullptr. `others`: other variables that the step changes.
  StepMark(const nn::Module& model, optim::Optimizer& optimizer, optim::GradScaler* scaler = nullptr,
           const std::vector<nn::Variable>& others = {});
  /// Records the present state.
  void set();
  /// Restores that state. False if this is not possible; model and optimizer are then changed.
  bool go_back() const;

 private:
  std::vector<nn::Variable> variables_;
  optim::Optimizer& optimizer_;
  optim::GradScaler* scaler_;
  std::vector<nn::ValueMark> values_;
  optim::Optimizer::Mark state_;
  std::vector<nn::ValueMark> scale_;
  Generator::State random_;
};

}  // namespace athanor
