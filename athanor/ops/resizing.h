// How interpolate() resizes one axis. Kernels use this too.
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

/// An axis of `in` elements resized to `out`, with the attributes of interpolate.
Resizing resizing(int64_t in, int64_t out, const Attrs& attrs);

/// Calls f(index in x, weight) for each element of x that contributes to element i of the result. An index
/// may come more than once.
void each_share(const Resizing& r, int64_t i, const std::function<void(int64_t, double)>& f);

}  // namespace athanor
