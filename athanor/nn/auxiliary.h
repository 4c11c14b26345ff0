// Models with a second output that helps in training.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// A base class, besides Module, for models with a second output. classify() adds its loss, times
/// auxiliary_weight().
class AuxiliaryLogits {
 public:
  virtual ~AuxiliaryLogits() = default;
  /// The second output [N, classes] of the last forward() in training; undefined after a forward() in
  /// evaluation, or after it was taken.
  virtual Tensor take_auxiliary() = 0;
  virtual double auxiliary_weight() const = 0;

 protected:
  AuxiliaryLogits() = default;
  AuxiliaryLogits(AuxiliaryLogits&&) = default;
  AuxiliaryLogits& operator=(AuxiliaryLogits&&) = default;
};

}  // namespace athanor::nn
