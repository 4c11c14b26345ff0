// Small tensors and their values, for tests of ops.
#pragma once
#include <limits>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/ops/ops.h"

namespace athanor::testing {

using Doubles = std::vector<double>;
inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline Doubles values(const Tensor& x) { return to_doubles(x.to_host()); }
inline Tensor f64(const Doubles& x) { return Tensor::from<double>(x, {static_cast<int64_t>(x.size())}); }
/// 0, 1, 2, ... in row-major order.
inline Tensor count(const Ints& shape, DType dtype = DType::f64) {
  return cast(reshape(arange(Shape(shape).size()), shape), dtype);
}

}  // namespace athanor::testing
