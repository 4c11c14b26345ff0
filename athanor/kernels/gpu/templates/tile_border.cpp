#include "athanor/kernels/gpu/templates/tile_border.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string TileBorder::function(const std::string& matrix) const {
  const std::string row_of = fmt::format("i / {} % {}", outputs.width, outputs.height),
                    column_of = fmt::format("i % {}", outputs.width);
  if (along_k)
    return fmt::format("DEVICE bool {}_is_inside(u32 i, int row, int column) {{\n", matrix) +
           fmt::format("  row += (int){}, column += (int){};\n", times("(" + row_of + ")", step.height),
                       times("(" + column_of + ")", step.width)) +
           fmt::format("  return row >= 0 && row < {} && column >= 0 && column < {};\n}}\n", extent.height,
                       extent.width);
  // The taps along one axis that exist.
  const auto along = [&](const std::string& axis, const std::string& i, int64_t Pair::*of) {
    std::string text = fmt::format("  const int {} = {};\n  u32 {}s = 0;\n", axis,
                                   plus("(int)" + times("(" + i + ")", step.*of), first.*of), axis);
    for (int64_t t = 0; t < taps.*of; ++t) {
      const std::string place = plus(axis, t * (tap.*of));
      text += fmt::format("  if ({0} >= 0 && {0} < {1}) {2}s |= {3}u;\n", place, extent.*of, axis,
                          uint32_t{1} << t);
    }
    return text;
  };
  std::string text = fmt::format("DEVICE u32 {}_taps_of(u32 i) {{\n", matrix) +
                     along("row", row_of, &Pair::height) + along("column", column_of, &Pair::width);
  text += "  u32 taps = 0;\n";
  for (int64_t t = 0; t < taps.height; ++t)
    text +=
        fmt::format("  if ((rows & {}u) != 0) taps |= columns << {};\n", uint32_t{1} << t, t * taps.width);
  return text + "  return taps;\n}\n";
}

std::string TileBorder::bit(const std::string& k) const { return fmt::format("1u << {} / {}", k, channels); }

}  // namespace athanor::gpu
