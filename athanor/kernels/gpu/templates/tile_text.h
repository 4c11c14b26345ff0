// Pieces of expressions. Operations that change nothing are left out.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::gpu {

inline std::string plus(const std::string& text, int64_t number) {
  return number == 0 ? text : fmt::format("{} {} {}", text, number < 0 ? '-' : '+', std::abs(number));
}
inline std::string plus(const std::string& text, const std::string& more) {
  return more == "0" ? text : text + " + " + more;
}
inline std::string times(const std::string& text, int64_t number) {
  return number == 1 ? text : fmt::format("{} * {}", text, number);
}
inline std::string divided(const std::string& text, int64_t number) {
  return number == 1 ? text : fmt::format("{} / {}", text, number);
}

/// The name of a unit's type of sums: "f32", "i32".
inline std::string_view sum_type(const MatrixUnit& unit) { return unit.output == DType::i32 ? "i32" : "f32"; }

/// "lane / 4 * 2 + ...": where a lane's number puts its elements along rows or columns, counted in pieces of
/// `size`.
inline std::string lane_part(const LaneLayout& layout, int LaneLayout::Cell::*along, int size = 1) {
  std::string text;
  for (size_t bit = 0; bit < layout.lane.size();) {
    const int step = layout.lane[bit].*along / size;
    size_t bits = 1;
    while (bit + bits < layout.lane.size() && step != 0 &&
           layout.lane[bit + bits].*along / size == step << bits)
      ++bits;
    if (step != 0) {
      const std::string bits_of_lane = fmt::format("{} % {}", divided("lane", 1 << bit), 1 << bits);
      text += (text.empty() ? "" : " + ") + times(bits_of_lane, step);
    }
    bit += bits;
  }
  return text.empty() ? "0" : text;
}

}  // namespace athanor::gpu
