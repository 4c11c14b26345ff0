// Products of any dtype, extents and strides, and of few rows.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// An item computes rows x columns elements. Its columns lie a group apart, so that neighbouring items read
/// neighbouring memory.
std::string plain_kernel(const GemmProblem& p, int64_t rows, int64_t columns, int64_t group_x,
                         int64_t group_y) {
  const DType factors = p.factors.value_or(p.dtype);
  const std::string read = stored(factors), written = stored(p.dtype),
                    number = fmt::format("COMPUTED({})", language_name(p.dtype));
  const int64_t tiles_m = ceil_div(p.m, rows * group_y), tiles_n = ceil_div(p.n, columns * group_x);
  const std::string row = "m0 + " + times("r", group_y), column = "n0 + " + times("j", group_x);
  Code code;
  code.line(fmt::format(
      "KERNEL void gemm_plain(BUFFER(const {0}, a_matrices), BUFFER(const {0}, b_matrices),", read));
  code.open(fmt::format("                       EPILOGUE_PARAMETERS BUFFER({}, c))", written));
  code.line(fmt::format("BIND(const {}, a_matrices);", read));
  code.line(fmt::format("BIND(const {}, b_matrices);", read));
  code.line("EPILOGUE_BIND");
  code.line(fmt::format("BIND({}, c);", written));
  code.line("int group = GROUP_ID(0);");
  code.line(fmt::format("const int n0 = group % {} * {} + LOCAL_ID(0);", tiles_n, columns * group_x));
  code.line(fmt::format("group /= {};", tiles_n));
  code.line(fmt::format("const int m0 = group % {} * {} + LOCAL_ID(1);", tiles_m, rows * group_y));
  code.line(fmt::format("const int batch = group / {};", tiles_m));
  code.line(fmt::format("GLOBAL const {} *const a = a_matrices + batch * (i64){};", read, p.a.batch));
  code.line(fmt::format("GLOBAL const {} *const b = b_matrices + batch * (i64){};", read, p.b.batch));
  code.line("// Rows and columns past the end read the last ones.");
  code.line(fmt::format("{} sums[{}], b_row[{}];", number, rows * columns, columns));
  code.line(fmt::format("for (int i = 0; i < {}; ++i) sums[i] = 0;", rows * columns));
  // `each`: how the loop over columns begins.
  const auto loop = [&](const std::string& column_read, const char* each) {
    // LLVM 18 and 19 sum products of bytes wrongly on AMD's GPUs if they can join four of them (its issue
    // 112941).
    code.open(fmt::format("{}for (int k = 0; k < {}; ++k)",
                          size_of(factors) == 1 ? "_Pragma(\"unroll 1\") " : "", p.k));
    code.line(
        fmt::format("{}for (int j = 0; j < {}; ++j) b_row[j] = B_AT(k, {});", each, columns, column_read));
    code.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", rows));
    code.line(fmt::format("const {} x = A_AT(MIN({}, {}), k);", number, row, p.m - 1));
    code.line(
        fmt::format("{0}for (int j = 0; j < {1}; ++j) sums[r * {1} + j] += x * b_row[j];", each, columns));
    code.close();
    code.close();
  };
  if (group_x == 1 && columns > 1) {
    code.open(fmt::format("if (n0 + {} <= {})", columns, p.n));
    loop("n0 + j", "");
    code.close();
    code.open("else");
  }
  loop(fmt::format("MIN({}, {})", column, p.n - 1), "UNROLL ");
  if (group_x == 1 && columns > 1) code.close();
  code.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", rows));
  code.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", columns));
  code.line(fmt::format("const int row = {}, column = {};", row, column));
  code.open(fmt::format("if (row < {} && column < {})", p.m, p.n));
  code.line(fmt::format(
      "STORE({}, c, batch * (i64){} + C_OFFSET(row, column), FINISHED(sums[r * {} + j], row, column));",
      language_name(p.dtype), p.c.batch, columns));
  code.close();
  code.close();
  code.close();
  code.close();
  return code.text();
}

}  // namespace

GpuCandidate plain_gemm_candidate(const GemmProblem& p, int64_t rows, int64_t columns, int64_t group_x,
                                  int64_t group_y) {
  GpuLaunch launch{
      .name = "gemm_plain",
      .source = gemm_prelude(p, true) + plain_kernel(p, rows, columns, group_x, group_y),
      .groups = {ceil_div(p.m, rows * group_y) * ceil_div(p.n, columns * group_x) * p.batch, 1, 1},
      .group_size = {group_x, group_y, 1},
      .arguments = gemm_arguments({{p.a.buffer, p.a.start}, {p.b.buffer, p.b.start}}, p, true,
                                  {p.c.buffer, p.c.start})};
  return {.name = fmt::format("plain gemm {}x{}", rows * group_y, columns * group_x),
          .parameters = {{"rows", rows}, {"columns", columns}, {"group_x", group_x}, {"group_y", group_y}},
          .launches = {std::move(launch)}};
}

bool is_of_few_rows(const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t most_rows = 4, least_k = 64;
  const auto vector = 16 / static_cast<int64_t>(size_of(p.dtype));
  return traits.registers && traits.grain->side_by_side > 1 && p.m <= most_rows && p.k >= least_k &&
         p.b.column == 1 && p.b.row % vector == 0 && p.n % vector == 0 &&
         (p.batch == 1 || p.b.batch % vector == 0) && p.b.start % 16 == 0 && p.b.alignment % 16 == 0 &&
         !p.matrices && !p.factors;
}

GpuCandidate few_rows_candidate(const GemmProblem& p, const GpuTraits& traits) {
  const auto vector = 16 / static_cast<int64_t>(size_of(p.dtype));
  // A group reads whole lines of memory of each row, or less if there would be too few groups. An item has
  // 128 bytes in flight. If there are fewer groups than compute units, groups have more items, so that as
  // many bytes are in flight.
  int64_t beside = 8;
  while (beside > 2 && 4 * ceil_div(p.n, beside * vector) * p.batch < 3 * traits.compute_units) beside /= 2;
  int64_t items = ceil_div(p.n, beside * vector) * p.batch < traits.compute_units ? 512 : 256;
  while (items > traits.max_group_size || items * p.m * vector * 4 > traits.local_bytes) items /= 2;
  const int64_t groups = ceil_div(p.n, beside * vector) * p.batch;
  const Defines defines = Defines().set("VECTOR", vector).set("COLUMNS_BESIDE", beside);
  GpuLaunch launch{.name = "gemm_rows",
                   .source = gemm_prelude(p, true, defines) + std::string(template_text("gemm_rows")),
                   .groups = {groups, 1, 1},
                   .group_size = {items, 1, 1},
                   .local_bytes = items * p.m * vector * 4,
                   .arguments = gemm_arguments({{p.a.buffer, p.a.start}, {p.b.buffer, p.b.start}}, p, true,
                                               {p.c.buffer, p.c.start})};
  return {.name = fmt::format("rows {}x{} by {}", p.m, beside * vector, items),
          .parameters = {{"rows", p.m}, {"columns", beside * vector}, {"items", items}},
          .launches = {std::move(launch)}};
}

}  // namespace athanor::gpu
