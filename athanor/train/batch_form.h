// What a batch of a model looks like and how its loss is computed, where there is no data.
#pragma once
#include <string>

#include "athanor/train/training_step.h"

namespace athanor {

struct BatchForm {
  TensorType inputs, targets;
  LossFunction loss;
};

/// Of a model by name, with examples of shape `input`.
BatchForm batch_form(const std::string& model, const Shape& input, int64_t batch_size, Device device);

}  // namespace athanor
