// Shapes of attention, for tests of its kernels.
#pragma once
#include "athanor/graph/shape.h"

namespace athanor::testing {

struct AttentionCase {
  Shape leading;
  int64_t queries, keys, d, e;
  bool causal = false, masked = false;
  double scale = 0.3;
};

/// The leading axes, then a, and b if it is given.
inline Shape with(const Shape& leading, int64_t a, int64_t b = -1) {
  Ints dims = leading.to_ints();
  dims.push_back(a);
  if (b >= 0) dims.push_back(b);
  return Shape(dims);
}

}  // namespace athanor::testing
