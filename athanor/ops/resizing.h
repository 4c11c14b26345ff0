// How one axis is resized: what interpolate() means. Kernels read it from here.
#pragma once
#include <cstdint>
#include <functional>

#include "athanor/graph/node.h"
#include "athanor/ops/interpolate.h"

namespace athanor {

/// One axis of `in` elements that becomes one of `out`.
struct Resizing {
  int64_t in, out;
  Interpolation mode;
  bool align_corners, antialias;

  bool nearest() const { return mode == Interpolation::nearest || mode == Interpolation::nearest_exact; }
  double cubic_a() const { return antialias ? -0.5 : -0.75; }
};

/// With the attributes of interpolate.
Resizing resizing(int64_t in, int64_t out, const Attrs& attrs);

/// Calls f(position in x, weight) for each element of x that counts in element i of the result. A position
/// may come more than once.
void each_share(const Resizing& r, int64_t i, const std::function<void(int64_t, double)>& f);

}  // namespace athanor
