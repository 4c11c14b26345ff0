#include "athanor/backends/cpu/loops/tiling.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace athanor::loops {

int64_t Tiling::tiles() const {
  int64_t n = 1;
  for (const Loop& loop : loops) n *= loop.extent;
  return n;
}

Tiling make_tiling(const Ints& space, const std::vector<size_t>& order, size_t first_in_block, int64_t most,
                   int64_t long_row) {
  constexpr int64_t line = 64;
  Tiling t;
  size_t position = order.size();
  int64_t inner = 1;
  bool full = false;
  while (position > first_in_block && inner < long_row && !full) {
    const size_t dim = order[position - 1];
    const int64_t extent = std::max<int64_t>(space[dim], 1);
    if (inner * extent <= most) {
      t.block.insert(t.block.begin(), {dim, extent});
      inner *= extent;
      --position;
      continue;
    }
    full = true;
    const int64_t at_most = std::max<int64_t>(most / inner, 1);
    if (at_most == 1) break;
    // Pieces of equal size, of whole cache lines if the row is one run of elements.
    const int64_t pieces = (extent + at_most - 1) / at_most;
    int64_t rows = (extent + pieces - 1) / pieces;
    if (inner == 1) rows = (rows + line - 1) / line * line;
    t.block.insert(t.block.begin(), {dim, rows});
    t.rows = rows;
    t.cut_extent = extent;
    t.cut = static_cast<int>(--position);
  }
  t.row_size = inner;
  for (size_t i = 0; i < position; ++i)
    t.loops.push_back({order[i], std::max<int64_t>(space[order[i]], 1), 1, false});
  if (t.cut >= 0) t.loops.push_back({order[position], (t.cut_extent + t.rows - 1) / t.rows, t.rows, true});
  return t;
}

void follow_strided_operands(Tiling& tiling, const std::vector<LoopOperand>& operands) {
  if (tiling.cut < 0) return;
  const size_t inner = tiling.loops.back().dim;
  for (size_t l = 0; l + 1 < tiling.loops.size(); ++l) {
    const size_t dim = tiling.loops[l].dim;
    const bool crosses = std::any_of(operands.begin(), operands.end(), [&](const LoopOperand& o) {
      return std::abs(o.strides[dim]) == 1 && std::abs(o.strides[inner]) > 1;
    });
    if (!crosses) continue;
    std::rotate(tiling.loops.begin() + static_cast<std::ptrdiff_t>(l),
                tiling.loops.begin() + static_cast<std::ptrdiff_t>(l) + 1, tiling.loops.end());
    tiling.cut = static_cast<int>(tiling.loops.size()) - 2;
    return;
  }
}

void kept_loops_first(Tiling& tiling, const std::vector<bool>& reduced) {
  std::stable_partition(tiling.loops.begin(), tiling.loops.end(),
                        [&](const Loop& l) { return !reduced[l.dim]; });
  for (size_t i = 0; i < tiling.loops.size(); ++i)
    if (tiling.loops[i].cut) tiling.cut = static_cast<int>(i);
}

Walker make_walker(const Tiling& tiling, int buffer, int64_t item, int64_t offset, const Ints& strides) {
  Walker w;
  w.buffer = buffer;
  w.item = item;
  w.offset = offset * item;
  for (const Loop& loop : tiling.loops) w.loop_strides.push_back(strides[loop.dim] * loop.step * item);
  w.repeats = !w.loop_strides.empty() && w.loop_strides.back() == 0;
  w.bytes = item;
  for (const Loop& loop : tiling.loops)
    if (strides[loop.dim] != 0) w.bytes *= loop.extent;
  for (const Tiling::Dim& d : tiling.block)
    if (strides[d.dim] != 0) w.bytes *= d.extent;

  std::vector<Walker::Dim> merged;  // innermost first
  bool moves = false;
  for (size_t i = tiling.block.size(); i-- > 0;) {
    const bool cut = i == 0 && tiling.cut >= 0;
    const auto& [dim, extent] = tiling.block[i];
    const int64_t stride = strides[dim] * item;
    if (extent == 1 && !cut) continue;
    moves |= stride != 0;
    if (!merged.empty() && stride == merged.back().stride * merged.back().extent) {
      if (cut) w.per_row = merged.back().extent;
      merged.back().extent *= extent;
    } else {
      if (cut) w.per_row = 1;
      merged.push_back({extent, stride});
    }
  }
  if (!moves) return w;
  if (tiling.cut < 0) w.per_row = merged.back().extent;
  w.dims.assign(merged.rbegin(), merged.rend());
  w.form = w.dims.size() == 1 && w.dims[0].stride == item ? Walker::Form::contiguous : Walker::Form::strided;
  return w;
}

}  // namespace athanor::loops
