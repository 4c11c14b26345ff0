// Puts a model into evaluation mode for a scope.
#pragma once
#include "athanor/nn/module.h"

namespace athanor {

/// At the end of the scope the model returns to its previous mode.
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
