// Images whose border of zeros is not in memory: which taps of a kernel lie inside the image, for each pixel
// of a result. A product that reads such images reads either a tap's channels or zeros.
#pragma once
#include <cstdint>
#include <string>

#include "athanor/ops/conv_problem.h"

namespace athanor::gpu {

/// Along one axis of the matrix are pixels, along the other one taps of channels.
struct TileBorder {
  static constexpr int64_t most_taps = 32;  // each has a bit

  Pair outputs;           // rows and columns of the result
  Pair step, first, tap;  // pixel i and tap t read row (or column) i * step + first + t * tap of the image,
  Pair extent;            // if the image has it
  Pair taps;
  int64_t channels = 0;  // of a tap
  int64_t start = 0;     // elements from the image's begin to the first pixel's first tap
  bool along_k = false;  // pixels are along k

  int64_t count() const { return taps.height * taps.width; }
  /// "DEVICE u32 b_taps_of(u32 i) {...}" returns the taps that exist for pixel i, a bit each. If pixels are
  /// along k, "DEVICE bool b_is_inside(u32 i, int row, int column) {...}" says whether the tap exists with
  /// which the first pixel reads that row and column.
  std::string function(const std::string& matrix) const;
  /// The bit of step k's tap: "1u << k_next / 64".
  std::string bit(const std::string& k) const;
};

}  // namespace athanor::gpu
