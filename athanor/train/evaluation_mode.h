// A model in evaluation for a while.
#pragma once
#include "athanor/nn/module.h"

namespace athanor {

/// Until the end of the scope; then the model is in the mode that it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), training_(model.training()) { model_.eval(); }
  ~EvaluationMode() { model_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool training_;
};

}  // namespace athanor
