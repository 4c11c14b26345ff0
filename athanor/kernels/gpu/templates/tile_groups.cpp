// Products of groups of rows (TileProblem::Groups), in one launch: how a group of work-items finds its own.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"

namespace athanor::gpu {

using Along = TileProblem::Groups::Along;

static std::string end_of(const TileProblem& p, const std::string& group) {
  return fmt::format("ends[{}]", times64(operand(group), p.groups->stride));
}

std::string TileKernel::m_end() const { return has_groups(Along::row) ? "m_end" : std::to_string(p_.m); }
std::string TileKernel::n_end() const { return has_groups(Along::column) ? "n_end" : std::to_string(p_.n); }

/// Tiles of rows begin anew with each group of them. Slot begin / rows + e is the first one of group e, which
/// leaves each group at least as many as it needs: few stay empty.
int64_t TileKernel::slots() const {
  const bool rows = has_groups(Along::row);
  return (rows ? p_.m / point_.m : p_.n / point_.n) + p_.groups->count + 1;
}

int64_t TileKernel::all_groups() const {
  if (point_.streams > 0) return stream().all_groups();
  if (has_groups(Along::row)) return slots() * tiles_n();
  if (has_groups(Along::column)) return slots() * tiles_m();
  return tiles_m() * tiles_n() * p_.batch * point_.splits;
}

std::string TileKernel::begin_of_group() const {
  const int64_t extent = has_groups(Along::row) ? p_.m : has_groups(Along::column) ? p_.n : p_.k;
  Code code;
  code.line("// Where group e begins. It is inside the matrix even if the ends are bad.");
  code.open("DEVICE int begin_of(GLOBAL const i64 *ends, int e)");
  code.line(
      fmt::format("return e == 0 ? 0 : (int)MIN(MAX({}, (i64)0), (i64){});", end_of(p_, "e - 1"), extent));
  code.close();
  return code.text();
}

/// `once`: what holds for one work-item for each group.
void TileKernel::report_bad_end(const std::string& group, const std::string& once) {
  const int64_t extent = has_groups(Along::row) ? p_.m : has_groups(Along::column) ? p_.n : p_.k;
  code_.open(fmt::format("if ({} && LOCAL_ID(0) == 0)", once));
  code_.line(fmt::format("const i64 end = {};", end_of(p_, group)));
  code_.line(fmt::format("if (end > {} || end < ({} == 0 ? (i64)0 : {})) FAULT(fault, end);", extent, group,
                         end_of(p_, group + " - 1")));
  code_.close();
}

/// The group of rows (or of columns), and the tile of it: `batch` is the number of the group and its matrix.
void TileKernel::find_group() {
  const bool rows = has_groups(Along::row);
  const int64_t tile = rows ? point_.m : point_.n, others = rows ? tiles_n() : tiles_m(),
                other_tile = rows ? point_.n : point_.m, extent = rows ? p_.m : p_.n,
                count = p_.groups->count;
  const std::string first = rows ? "m0" : "n0", other = rows ? "n0" : "m0", end = rows ? "m_end" : "n_end";
  code_.line(fmt::format("const int {} = {}, slot = {};", other,
                         times(remainder("GROUP_ID(0)", others), other_tile),
                         divided("GROUP_ID(0)", others)));
  // There are more slots than groups, so each end is looked at once.
  report_bad_end("slot", fmt::format("slot < {} && {} == 0", count, other));
  code_.line(fmt::format(
      "// The last group whose first slot, begin / {} + its number, is this one or before.", tile));
  code_.line(fmt::format("int batch = 0, above = {};", count + 1));
  code_.open("while (above - batch > 1)");
  code_.line("const int middle = (batch + above) / 2;");
  code_.line(fmt::format("if (begin_of(ends, middle) / {} + middle <= slot)", tile));
  code_.line("  batch = middle;");
  code_.line("else");
  code_.line("  above = middle;");
  code_.close();
  code_.line("const int begin = begin_of(ends, batch);");
  code_.line(fmt::format("const int {} = batch < {} ? begin_of(ends, batch + 1) : {};", end, count, extent));
  code_.line(fmt::format("const int {0} = begin + (slot - (begin / {1} + batch)) * {1};", first, tile));
  code_.line(fmt::format("if ({} >= {}) return;", first, end));
  code_.line(fmt::format("const int k_begin = 0, k_end = {};", p_.k));
}

/// Rows (or columns) behind the last group are one more, which has no matrix.
void TileKernel::store_zeros_behind() {
  const bool along_rows = row_.stride() == 1;
  const int64_t inner = along_rows ? point_.m : point_.n;
  code_.open(fmt::format("if (batch == {})", p_.groups->count));
  code_.open(fmt::format("for (int i = item; i < {}; i += {})", point_.m * point_.n, point_.items()));
  code_.line(fmt::format("const int row = i {} {}, column = i {} {};", along_rows ? '%' : '/', inner,
                         along_rows ? '/' : '%', inner));
  const std::string inside = if_inside("row", "column", false);
  code_.line(fmt::format("{}{}STORE({}, c, {}, 0.0f);", inside, inside.empty() ? "" : " ",
                         language_name(p_.output), place_of("row", "column")));
  code_.close();
  code_.line("return;");
  code_.close();
}

void TileKernel::find_steps_of_group() {
  report_bad_end("batch", "tile == 0");
  code_.line("const int k_begin = begin_of(ends, batch), k_end = begin_of(ends, batch + 1);");
}

}  // namespace athanor::gpu
