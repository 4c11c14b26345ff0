// Running statistics; used by batch norm.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// running + weight (scale value - running). All are [C] except weight, a scalar f32. It is one op, so that a
/// step's graph stays small.
Tensor running_average(const Tensor& running, const Tensor& value, const Tensor& weight, double scale);

}  // namespace athanor::nn
