// Models with a second output that helps in training.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// What a model that has one derives from, beside Module. classify() adds its loss, times auxiliary_weight().
class AuxiliaryLogits {
 public:
  virtual ~AuxiliaryLogits() = default;
  /// What the last forward() in training gave, [N, classes]; undefined after one in evaluation, or when it
  /// was taken before.
  virtual Tensor take_auxiliary() = 0;
  virtual double auxiliary_weight() const = 0;

 protected:
  AuxiliaryLogits() = default;
  AuxiliaryLogits(AuxiliaryLogits&&) = default;
  AuxiliaryLogits& operator=(AuxiliaryLogits&&) = default;
};

}  // namespace athanor::nn
