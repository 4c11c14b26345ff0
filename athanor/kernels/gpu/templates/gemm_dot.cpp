// Products of few rows or columns, as dot products along K.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

bool dot_reads_registers(const GemmProblem& p) {
  if ((p.dtype != DType::f16 && p.dtype != DType::bf16) || p.k < 8) return false;
  const auto aligned = [&](const GemmProblem::Operand& x, int64_t along_k, int64_t across, int64_t extent) {
    return along_k == 1 && (extent == 1 || across % 8 == 0) && (p.batch == 1 || x.batch % 8 == 0) &&
           x.start % 16 == 0 && x.alignment % 16 == 0;
  };
  return aligned(p.a, p.a.column, p.a.row, p.m) && aligned(p.b, p.b.row, p.b.column, p.n);
}

namespace {

/// A matrix whose elements along K are contiguous, in memory or packed.
struct Lines {
  std::string name, type, start, vector, element;  // `vector` of line {} at k; `element` of line {} at tail
};

Lines lines_of(const GemmProblem& p, bool of_a, bool packed, int64_t width) {
  const GemmProblem::Operand& x = of_a ? p.a : p.b;
  const std::string dtype(language_name(p.dtype)),
      matrix = of_a ? "a" : "b", name = of_a ? "a_rows" : "b_columns", first = of_a ? "m0" : "n0";
  const int64_t apart = packed ? p.k : of_a ? p.a.row : p.b.column, lines = of_a ? p.m : p.n;
  const auto at = [&](const char* k) { return fmt::format("{} + {{}} * (INDEX){}", k, apart); };
  if (packed)
    return {name, "f32",
            x.batch == 0 ? fmt::format("{} + (i64){} * {}", matrix, first, p.k)
                         : fmt::format("{} + (batch * (i64){} + {}) * {}", matrix, lines, first, p.k),
            fmt::format("VLOAD({}, {}, {})", width, name, at("k")), fmt::format("{}[{}]", name, at("tail"))};
  return {name, stored(p.dtype),
          fmt::format("{} + (batch * (i64){} + {} * (i64){})", matrix, x.batch, first, apart),
          fmt::format("LOAD_VECTOR({}, {})", name, at("k")),
          fmt::format("LOAD({}, {}, {})", dtype, name, at("tail"))};
}

/// An item computes rows x columns dot products with vectors along K; the items of a group share one K.
std::string dot_kernel(const GemmProblem& p, int64_t rows, int64_t columns, int64_t width, int64_t items,
                       const Lines& a, const Lines& b) {
  const int64_t tiles_m = ceil_div(p.m, rows), tiles_n = ceil_div(p.n, columns), sums = rows * columns;
  const auto line = [](const std::string& text, const char* number) {
    return fmt::format(fmt::runtime(text), number);
  };
  const std::string item = items == 1 ? "0" : "LOCAL_ID(0)";
  Code code;
  const auto open_sums = [&] {
    code.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", rows));
    code.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", columns));
  };
  const auto close_sums = [&] { code.close(), code.close(); };
  code.line(fmt::format("KERNEL void gemm_dot(BUFFER(const {}, a), BUFFER(const {}, b),", a.type, b.type));
  code.open(fmt::format("                     EPILOGUE_PARAMETERS BUFFER({}, c))", stored(p.dtype)));
  code.line(fmt::format("BIND(const {}, a);", a.type));
  code.line(fmt::format("BIND(const {}, b);", b.type));
  code.line("EPILOGUE_BIND");
  code.line(fmt::format("BIND({}, c);", stored(p.dtype)));
  code.line("int group = GROUP_ID(0);");
  code.line(fmt::format("const int n0 = MIN(group % {} * {}, {});", tiles_n, columns, p.n - columns));
  code.line(fmt::format("group /= {};", tiles_n));
  code.line(fmt::format("const int m0 = MIN(group % {} * {}, {});", tiles_m, rows, p.m - rows));
  code.line(fmt::format("const int batch = group / {};", tiles_m));
  for (const Lines& x : {a, b})
    code.line(fmt::format("GLOBAL const {} *const {} = {};", x.type, x.name, x.start));
  code.line(fmt::format("vector sums[{}][{}];", rows, columns));
  open_sums();
  code.line("sums[r][j] = (vector)(0.0f);");
  close_sums();
  code.line(fmt::format("int k = {};", items == 1 ? item : times(item, width)));
  code.open(fmt::format("for (; k + {} <= {}; k += {})", width, p.k, width * items));
  code.line(fmt::format("vector b_part[{}];", columns));
  code.line(fmt::format("UNROLL for (int j = 0; j < {}; ++j) b_part[j] = {};", columns, line(b.vector, "j")));
  code.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", rows));
  code.line(fmt::format("const vector a_part = {};", line(a.vector, "r")));
  code.line(fmt::format(
      "UNROLL for (int j = 0; j < {}; ++j) sums[r][j] = MULTIPLY_ADD(a_part, b_part[j], sums[r][j]);",
      columns));
  code.close();
  code.close();
  code.line(fmt::format("f32 totals[{}];", sums));
  open_sums();
  code.line(fmt::format("f32 lanes[{}];", width));
  code.line(fmt::format("VSTORE({}, lanes, 0, sums[r][j]);", width));
  if (width > 1) {
    code.line("// Adds in pairs: in a chain, each addition would wait for the one before.");
    code.open(fmt::format("UNROLL for (int reach = {}; reach > 0; reach /= 2)", width / 2));
    code.line("UNROLL for (int i = 0; i < reach; ++i) lanes[i] += lanes[i + reach];");
    code.close();
  }
  code.line("f32 total = lanes[0];");
  code.line("// The item whose vector would reach over the end computes the remaining elements.");
  code.line(fmt::format("for (int tail = k; tail < MIN(k + {}, {}); ++tail) total = FMA({}, {}, total);",
                        width, p.k, line(a.element, "r"), line(b.element, "j")));
  code.line(fmt::format("totals[r * {} + j] = total;", columns));
  close_sums();
  if (items > 1) {
    code.line(fmt::format("LOCAL f32 shared[{}];", sums * items));
    code.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) shared[i * {} + LOCAL_ID(0)] = totals[i];",
                          sums, items));
    code.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", items / 2));
    code.line("BARRIER();");
    code.open("if (LOCAL_ID(0) < reach)");
    code.line(
        fmt::format("UNROLL for (int i = 0; i < {0}; ++i) shared[i * {1} + LOCAL_ID(0)] += shared[i * {1} + "
                    "LOCAL_ID(0) + reach];",
                    sums, items));
    code.close();
    code.close();
    code.line("BARRIER();");
    code.open(fmt::format("for (int i = LOCAL_ID(0); i < {}; i += {})", sums, items));
    code.line(fmt::format("const f32 total = shared[i * {}];", items));
  } else {
    code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", sums));
    code.line("const f32 total = totals[i];");
  }
  code.line(fmt::format("const int row = m0 + i / {0}, column = n0 + i % {0};", columns));
  code.line(
      fmt::format("STORE({}, c, batch * (i64){} + C_OFFSET(row, column), FINISHED(total, row, column));",
                  language_name(p.dtype), p.c.batch));
  code.close();
  code.close();
  return code.text();
}

}  // namespace

GpuCandidate dot_candidate(const GemmProblem& p, int64_t rows, int64_t columns, int64_t width, int64_t items,
                           bool by_registers) {
  GpuCandidate candidate;
  GemmScratch scratch{p.scratch_buffer, p.scratch_start};
  // A matrix that is not contiguous along k is packed so that it is.
  const bool pack_a = p.a.column != 1, pack_b = p.b.row != 1;
  const auto source = [&](bool packs_a) {
    const GemmProblem::Operand& x = packs_a ? p.a : p.b;
    if (!(packs_a ? pack_a : pack_b)) return GpuLaunch::Argument{x.buffer, x.start};
    const GpuLaunch::Argument to = scratch.take((x.batch == 0 ? 1 : p.batch) * (packs_a ? p.m : p.n) * p.k);
    candidate.launches.push_back(pack_launch(p, packs_a, 1, items == 1, to));
    return to;
  };
  const GpuLaunch::Argument a = source(true), b = source(false);
  candidate.launches.push_back(
      {.name = "gemm_dot",
       .source = gemm_prelude(p, true) + vectors_text(p.dtype, width, by_registers) +
                 dot_kernel(p, rows, columns, width, items, lines_of(p, true, pack_a, width),
                            lines_of(p, false, pack_b, width)),
       .groups = {ceil_div(p.m, rows) * ceil_div(p.n, columns) * p.batch, 1, 1},
       .group_size = {items, 1, 1},
       .local_bytes = items > 1 ? rows * columns * items * 4 : 0,
       .arguments = gemm_arguments({a, b}, p, true, {p.c.buffer, p.c.start})});
  candidate.name =
      fmt::format("dot {}x{} by {}{}", rows, columns, width * items, pack_a || pack_b ? " packed" : "");
  candidate.parameters = {{"rows", rows}, {"columns", columns}, {"width", width}, {"items", items}};
  candidate.scratch_bytes = scratch.bytes;
  return candidate;
}

}  // namespace athanor::gpu
