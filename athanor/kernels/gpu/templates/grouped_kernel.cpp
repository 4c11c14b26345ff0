// Which product and tile a group of work-items of grouped_matmul has.
#include "athanor/kernels/gpu/templates/grouped_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

GroupedKernel::GroupedKernel(const GroupedProblem& problem, const GroupedPoint& point)
    : p_(problem), point_(point), groups_{problem.ends, problem.groups, problem.rows} {
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

void GroupedKernel::begin() {
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
  groups_.report_bad_end(code_, "slot", fmt::format("slot < {} && n0 == 0 && item == 0", p_.groups));
  find_group();
  code_.line(fmt::format("GLOBAL const {} *const b = {};", type,
                         p_.gradient ? "others" : fmt::format("others + e * (i64){}", p_.other[0])));
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
  groups_.find(code_, a_.tile, "e", "m0", "m_end");
  code_.line(fmt::format("const int k_begin = 0, k_end = e < {} ? {} : 0;", p_.groups, p_.inner));
  code_.line(fmt::format("GLOBAL {} *const c = result;", type));
}

}  // namespace athanor::gpu
