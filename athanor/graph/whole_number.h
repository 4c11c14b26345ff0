// A number as an integer, where a number of the program becomes an element of an integer dtype.
#pragma once
#include <cstdint>
#include <limits>

namespace athanor {

/// `value` truncated. One beyond i64 gives the nearest i64: so the largest, which a double holds as 2^63,
/// stays the largest. NaN gives the lowest. (C++ defines neither, and processors differ.)
constexpr int64_t whole_number(double value) {
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return value >= -0x1p63 ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}

}  // namespace athanor
