// Where an operand's elements lie in its memory.
#pragma once
#include <algorithm>
#include <cstdint>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// How many elements of memory an operand is given. Blocked ones have no strides.
inline int64_t reach_of(const OperandDesc& operand) {
  return std::max(operand.reach(), operand.shape.size());
}

/// Where element `flat`, counted row-major, lies: in elements, from the operand's first one on.
inline int64_t element_offset(const OperandDesc& operand, int64_t flat) {
  int64_t offset = 0;
  for (int axis = operand.shape.rank(); axis-- > 0;) {
    offset += flat % operand.shape[axis] * operand.strides[static_cast<size_t>(axis)];
    flat /= operand.shape[axis];
  }
  return offset;
}

}  // namespace athanor
