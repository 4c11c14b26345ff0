// Products of groups of rows (TileProblem::Groups), in one launch: how a group of work-items finds its own.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"

namespace athanor::gpu {

using Along = TileProblem::Groups::Along;

std::string TileKernel::m_end() const { return has_groups(Along::row) ? "m_end" : std::to_string(p_.m); }
std::string TileKernel::n_end() const { return has_groups(Along::column) ? "n_end" : std::to_string(p_.n); }

GroupsOfRows TileKernel::groups() const {
  const int64_t extent = has_groups(Along::row) ? p_.m : has_groups(Along::column) ? p_.n : p_.k;
  return {p_.groups->stride, p_.groups->count, extent};
}

int64_t TileKernel::all_groups() const {
  if (point_.streams > 0) return stream().all_groups();
  if (has_groups(Along::row)) return groups().slots(point_.m) * tiles_n();
  if (has_groups(Along::column)) return groups().slots(point_.n) * tiles_m();
  return tiles_m() * tiles_n() * p_.batch * point_.splits;
}

/// The group of rows (or of columns), and the tile of it: `batch` is the number of the group and its matrix.
void TileKernel::find_group() {
  const bool rows = has_groups(Along::row);
  const int64_t others = rows ? tiles_n() : tiles_m(), other_tile = rows ? point_.n : point_.m;
  const std::string other = rows ? "n0" : "m0";
  code_.line(fmt::format("const int {} = {}, slot = {};", other,
                         times(remainder("GROUP_ID(0)", others), other_tile),
                         divided("GROUP_ID(0)", others)));
  // There are more slots than groups, so each end is looked at once.
  groups().report_bad_end(code_, "slot",
                          fmt::format("slot < {} && {} == 0 && LOCAL_ID(0) == 0", p_.groups->count, other));
  groups().find(code_, rows ? point_.m : point_.n, "batch", rows ? "m0" : "n0", rows ? "m_end" : "n_end");
}

void TileKernel::find_steps_of_group() {
  groups().report_bad_end(code_, "batch", "tile == 0 && LOCAL_ID(0) == 0");
  code_.line("const int k_begin = begin_of(ends, batch), k_end = begin_of(ends, batch + 1);");
}

}  // namespace athanor::gpu
