// Tensors of numbers that differ from one to the next.
#pragma once
#include <cmath>
#include <vector>

#include "athanor/ops/ops.h"

namespace athanor::testing {

/// sin(step i) for element i, on the device.
inline Tensor sine(const Shape& shape, double step, Device device, DType dtype) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  Tensor x = cast(Tensor::from(values, shape).to(device), dtype);
  x.eval();
  return x;
}

}  // namespace athanor::testing
