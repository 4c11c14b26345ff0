// Running statistics; used by batch norm.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// running + weight (scale value - running): all [C], but for weight, a scalar f32. One op, so that a step's
/// graph stays small.
Tensor running_average(const Tensor& running, const Tensor& value, const Tensor& weight, double scale);

}  // namespace athanor::nn
