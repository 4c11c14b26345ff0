// Where a run stands before a step.
#pragma once
#include <vector>

#include "athanor/nn/module.h"
#include "athanor/ops/random.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"

namespace athanor {

/// What a step changes in model, optimizer and random numbers, to be taken back when the step is left before
/// it has changed anything in memory (Interrupted): while its kernels were chosen and compiled, or between
/// those that come before the updates.
class StepMark {
 public:
  /// `scaler` may be nullptr. `others`: what the step changes besides.
  StepMark(const nn::Module& model, optim::Optimizer& optimizer, optim::GradScaler* scaler = nullptr,
           const std::vector<nn::Variable>& others = {});
  /// Marks where all stands now.
  void set();
  /// Goes back to there. False when that cannot be; then model and optimizer are not what they were.
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
