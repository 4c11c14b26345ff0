// What an epilogue reduces, on its way from registers to memory. A lane combines the elements that it has of
// each result. Then the lanes of a wave that have elements of the same results combine theirs, and one of
// them stores a part of the result. A loop behind the kernel joins the parts in their order, so the bits are
// the same each time.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

void TileKernel::find_reduced() {
  if (reduces()) reduced_ = p_.epilogue.reduced().value();
}

/// How many groups of lanes cannot be joined by SHUFFLE_XOR: a unit of 128 lanes has four waves of 32, one
/// above the other.
int64_t TileKernel::far_lanes() const { return unit_.wave > 64 && reduced_.row ? unit_.wave / 32 : 1; }

int64_t TileKernel::sum_parts() const {
  int64_t parts = far_lanes();
  if (reduced_.row) parts *= ceil_div(p_.m, point_.m) * point_.waves_m;
  if (reduced_.column) parts *= ceil_div(p_.n, point_.n) * point_.waves_n;
  return reduced_.batch ? parts * p_.batch : parts;
}

/// The row or column, whichever is kept, of an element of a unit, or of one of the units to the right of it.
int TileKernel::kept_of(int element, int64_t unit) const {
  const LaneLayout::Cell cell = c_.at(0, element);
  return reduces_all() ? 0 : reduced_.column ? cell.row : cell.column + static_cast<int>(unit) * unit_.n;
}

/// The kept rows or columns that a lane has in the units whose terms are added together.
std::vector<int> TileKernel::kept_cells() const {
  std::vector<int> cells;
  for (int64_t unit = 0; unit < terms_together_; ++unit)
    for (int e = 0; e < c_.elements; ++e)
      if (const int kept = kept_of(e, unit); std::ranges::find(cells, kept) == cells.end())
        cells.push_back(kept);
  return cells;
}

/// Adds the elements of a run, from `element` on, whose results are in finished<name> and the variables after
/// it. `indices`: along C's rows or columns, whichever run in memory. Behind the last one lies padding.
void TileKernel::add_terms(int element, const std::vector<std::string>& indices, int64_t name, int64_t unit) {
  const auto& reductions = p_.epilogue.reductions();
  const std::vector<int> cells = kept_cells();
  for (int64_t r = 0; r < std::ssize(indices) && !reductions.empty(); ++r) {
    const bool may_be_behind = r > 0 && along().padding() > 0;
    if (may_be_behind)
      code_.open(fmt::format("if ({} < {})", indices[static_cast<size_t>(r)], along().extent()));
    for (size_t t = 0; t < reductions.size(); ++t) {
      const auto cell = std::ranges::find(cells, kept_of(element + static_cast<int>(r), unit));
      const std::string term = fmt::format("term{}[{}]", t, cell - cells.begin());
      code_.line(fmt::format("{} = {};", term,
                             combine(reductions[t], term, fmt::format("finished{}.term{}", name + r, t))));
    }
    if (may_be_behind) code_.close();
  }
}

void TileKernel::declare_terms() {
  const auto& reductions = p_.epilogue.reductions();
  const auto cells = kept_cells().size();
  for (size_t t = 0; t < reductions.size(); ++t) {
    std::string zeros;
    for (size_t c = 0; c < cells; ++c) zeros += (c == 0 ? "" : ", ") + reduction_identity(reductions[t]);
    code_.line(fmt::format("f32 term{}[{}] = {{{}}};", t, cells, zeros));
  }
}

void TileKernel::store_terms() {
  const auto& reductions = p_.epilogue.reductions();
  const auto cells = kept_cells();
  code_.line("SHUFFLE_MEMORY(tiles);");
  int others = 0;  // lanes that store nothing, as bits of their numbers
  for (size_t bit = 0; bit < c_.lane.size() && (1 << bit) < unit_.wave; ++bit) {
    const LaneLayout::Cell step = c_.lane[bit];
    const bool joins = (reduced_.row && step.row != 0) || (reduced_.column && step.column != 0);
    const bool same = step.row == 0 && step.column == 0;
    const bool far = unit_.wave > 64 && bit >= 5;
    if (far || !(joins || same)) continue;
    others |= 1 << bit;
    if (same) continue;
    for (size_t t = 0; t < reductions.size(); ++t)
      for (size_t c = 0; c < cells.size(); ++c) {
        const std::string term = fmt::format("term{}[{}]", t, c);
        // All lanes must reach the shuffle, so it must not be an operand of a comparison.
        const std::string its = fmt::format("its{}_{}_{}", t, c, bit);
        code_.line(fmt::format("const f32 {} = F32_OF_BITS(SHUFFLE_XOR(BITS_OF_F32({}), {}));", its, term,
                               1 << bit));
        code_.line(fmt::format("{} = {};", term, combine(reductions[t], term, its)));
      }
  }
  // The part's number: tiles, and waves in them, in the order of what they reduce.
  std::string part = "0";
  int64_t parts = 1;
  const auto add = [&](const std::string& number, int64_t count) {
    if (count == 1) return;
    part = part == "0" ? number : fmt::format("({}) * {} + {}", part, count, number);
    parts *= count;
  };
  if (reduced_.batch) add("batch", p_.batch);
  if (reduced_.row) {
    add(fmt::format("m0 / {}", point_.m), ceil_div(p_.m, point_.m));
    add("wave_m", point_.waves_m);
    add("lane / 32", far_lanes());
  }
  if (reduced_.column) {
    add(fmt::format("n0 / {}", point_.n), ceil_div(p_.n, point_.n));
    add("wave_n", point_.waves_n);
  }
  code_.open(others == 0 ? "" : fmt::format("if ((lane & {}) == 0)", others));
  code_.line(fmt::format("const int sum_part = {};", plus(part, p_.partials.first)));
  for (size_t c = 0; c < cells.size(); ++c) {
    std::string inside;
    code_.open("");
    if (!reduced_.row) {
      code_.line(fmt::format("const int row = m0 + {};", row_at(cells[c])));
      if (p_.m % point_.m != 0) inside = fmt::format("if (row < {}) ", p_.m);
    }
    if (!reduced_.column) {
      code_.line(fmt::format("const int column = n0 + {};", column_at(cells[c])));
      if (p_.n % point_.n != 0) inside = fmt::format("if (column < {}) ", p_.n);
    }
    for (size_t t = 0; t < reductions.size(); ++t)
      code_.line(fmt::format("{}partials[((i64)({}) + {}) * {} + sum_part] = term{}[{}];", inside,
                             reduced_.result, static_cast<int64_t>(t) * reduced_.results, p_.partials.parts,
                             t, c));
    code_.close();
  }
  code_.close();
}

}  // namespace athanor::gpu
