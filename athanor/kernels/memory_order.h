// The order in which an operand's elements lie in memory.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// An operand's axes, those with long strides first.
inline Ints memory_order(const OperandDesc& operand) {
  Ints axes(operand.strides.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, std::greater<>(),
                           [&](int64_t axis) { return operand.strides[static_cast<size_t>(axis)]; });
  return axes;
}

}  // namespace athanor
