// Which product and tile a group of work-items of grouped_matmul has.
#include "athanor/kernels/gpu/templates/grouped_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

GroupedKernel::GroupedKernel(const GroupedProblem& problem, const GroupedPoint& point)
    : p_(problem), point_(point) {
  // The result sums along rows of x and of the other matrix if it is the gradient, else along columns of x.
  const size_t m_axis = p_.gradient ? 1 : 0, k_axis = 1 - m_axis, other = p_.gradient ? 0 : 1;
  a_ = {"a", "m", "m_end", point.tile_m(), point.pitch(), p_.x[m_axis], p_.x[k_axis], p_.x[k_axis] == 1};
  const int64_t b_k = p_.other[other], b_n = p_.other[other + 1], tile_n = point.tile_n();
  b_ = {"b", "n", std::to_string(p_.columns), tile_n, tile_n, b_n, b_k, b_k == 1 && b_n != 1};
  const int64_t m = p_.gradient ? p_.inner : p_.rows, k = p_.gradient ? p_.rows : p_.inner;
  const auto farthest = [&](const Operand& operand, int64_t extent) {
    return (extent - 1) * std::abs(operand.outer_stride) + (k - 1) * std::abs(operand.k_stride);
  };
  wide_ = std::max(farthest(a_, m), farthest(b_, p_.columns)) >= INT32_MAX;
}

std::string GroupedKernel::end_of(const std::string& group) const {
  return p_.ends == 1 ? fmt::format("ends[{}]", group) : fmt::format("ends[({}) * (i64){}]", group, p_.ends);
}

void GroupedKernel::write_begin_of() {
  code_.line("// Where group e begins. It is a row of x even if the ends are bad.");
  code_.open("DEVICE int begin_of(GLOBAL const i64 *ends, int e)");
  code_.line(
      fmt::format("return e == 0 ? 0 : (int)MIN(MAX({}, (i64)0), (i64){});", end_of("e - 1"), p_.rows));
  code_.close();
}

void GroupedKernel::begin() {
  write_begin_of();
  const std::string type = stored(p_.dtype);
  open_kernel(code_, "grouped_matmul",
              {{"a", "const " + type}, {"others", "const " + type}, {"ends", "const i64"}, {"result", type}},
              true);
  const int64_t tiles_n = ceil_div(p_.columns, b_.tile);
  if (tiles_n == 1)
    code_.line("const int n0 = 0, slot = GROUP_ID(0);");
  else
    code_.line(
        fmt::format("const int n0 = GROUP_ID(0) % {0} * {1}, slot = GROUP_ID(0) / {0};", tiles_n, b_.tile));
  code_.line(fmt::format("const int item = {};",
                         point_.items() == 1 ? "0"
                         : point_.group_y == 1
                             ? "LOCAL_ID(0)"
                             : fmt::format("LOCAL_ID(1) * {} + LOCAL_ID(0)", point_.group_x)));
  report_bad_end();
  find_group();
  code_.line(fmt::format("GLOBAL const {} *const b = {};", type,
                         p_.gradient ? "others" : fmt::format("others + e * (i64){}", p_.other[0])));
}

void GroupedKernel::report_bad_end() {
  code_.line("// There are more slots than groups, so each end is looked at once.");
  code_.open(fmt::format("if (slot < {} && n0 == 0 && item == 0)", p_.groups));
  code_.line(fmt::format("const i64 end = {};", end_of("slot")));
  code_.line(fmt::format("if (end > {} || end < (slot == 0 ? (i64)0 : {})) FAULT(fault, end);", p_.rows,
                         end_of("slot - 1")));
  code_.close();
}

/// Results are tiles of rows of y, which begin anew with each group of rows; rows behind the last end are one
/// more group, which has no products to sum. Gradients have as many tiles for each group as for the others,
/// and sum over its rows.
void GroupedKernel::find_group() {
  const std::string type = stored(p_.dtype);
  if (p_.gradient) {
    const int64_t tiles_m = ceil_div(p_.inner, a_.tile);
    if (tiles_m == 1)
      code_.line(fmt::format("const int e = slot, m0 = 0, m_end = {};", p_.inner));
    else
      code_.line(fmt::format("const int e = slot / {0}, m0 = slot % {0} * {1}, m_end = {2};", tiles_m,
                             a_.tile, p_.inner));
    code_.line("const int k_begin = begin_of(ends, e), k_end = begin_of(ends, e + 1);");
    code_.line(fmt::format("GLOBAL {} *const c = result + e * (i64){};", type, p_.inner * p_.columns));
    return;
  }
  const std::string tile = std::to_string(a_.tile);
  code_.line(fmt::format(
      "// Slot begin / {} + e is the first one of group e, which leaves each group at least as many as it",
      tile));
  code_.line("// needs.");
  code_.line(fmt::format("int e = 0, above = {};", p_.groups + 1));
  code_.open("while (above - e > 1)");
  code_.line("const int middle = (e + above) / 2;");
  code_.line(fmt::format("if (begin_of(ends, middle) / {} + middle <= slot)", tile));
  code_.line("  e = middle;");
  code_.line("else");
  code_.line("  above = middle;");
  code_.close();
  code_.line(fmt::format("const int begin = begin_of(ends, e), m_end = e < {} ? begin_of(ends, e + 1) : {};",
                         p_.groups, p_.rows));
  code_.line(fmt::format("const int m0 = begin + (slot - (begin / {0} + e)) * {0};", tile));
  code_.line("if (m0 >= m_end) return;");
  code_.line(fmt::format("const int k_begin = 0, k_end = e < {} ? {} : 0;", p_.groups, p_.inner));
  code_.line(fmt::format("GLOBAL {} *const c = result;", type));
}

}  // namespace athanor::gpu
