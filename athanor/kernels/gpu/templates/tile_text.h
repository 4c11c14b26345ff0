// What the tile engine writes about units.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::gpu {

/// The name of a unit's type of sums: "f32", "i32".
inline std::string_view sum_type(const MatrixUnit& unit) { return unit.output == DType::i32 ? "i32" : "f32"; }

/// "lane / 4 * 2 + ...": where a lane's number puts its elements along rows or columns.
inline std::string lane_part(const LaneLayout& layout, int LaneLayout::Cell::*along) {
  std::string text;
  for (size_t bit = 0; bit < layout.lane.size();) {
    const int step = layout.lane[bit].*along;
    size_t bits = 1;
    while (bit + bits < layout.lane.size() && step != 0 && layout.lane[bit + bits].*along == step << bits)
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
