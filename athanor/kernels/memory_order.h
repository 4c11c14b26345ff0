// The order in which elements lie in memory.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>

#include "athanor/graph/shape.h"

namespace athanor {

/// The axes with these strides, those with long ones first.
inline Ints memory_order(const Ints& strides) {
  Ints axes(strides.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, std::greater<>(),
                           [&](int64_t axis) { return strides[static_cast<size_t>(axis)]; });
  return axes;
}

}  // namespace athanor
