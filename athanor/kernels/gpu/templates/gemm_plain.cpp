// Products of any dtype, extents and strides.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

/// An item computes rows x columns elements. Its columns lie a group apart, so that neighbouring items read
/// neighbouring memory.
std::string plain_kernel(const GemmProblem& p, int64_t rows, int64_t columns, int64_t group_x,
                         int64_t group_y, const std::vector<Parameter>& parameters) {
  const GemmMatrices matrices = matrices_of(p);
  const DType factors = p.factors.value_or(p.dtype);
  const std::string number = fmt::format("COMPUTED({})", language_name(p.dtype)), batch = batch_of(p);
  const int64_t tiles_m = ceil_div(p.m, rows * group_y), tiles_n = ceil_div(p.n, columns * group_x);
  const auto row = [&](const std::string& r) { return plus("m0", times(r, group_y)); };
  const auto column = [&](const std::string& j) { return plus("n0", times(j, group_x)); };
  const auto sum = [&](const std::string& r, const std::string& j) {
    return fmt::format("sums[{}]", plus(times(r, columns), j));
  };
  Code code;
  open_kernel(code, "gemm_plain", parameters, false);
  code.line("const int group = GROUP_ID(0);");
  code.line(fmt::format("const int n0 = {};", plus(times(remainder("group", tiles_n), columns * group_x),
                                                   group_x == 1 ? "0" : "LOCAL_ID(0)")));
  code.line(fmt::format("const int m0 = {};",
                        plus(times(remainder(divided("group", tiles_n), tiles_m), rows * group_y),
                             group_y == 1 ? "0" : "LOCAL_ID(1)")));
  declare_batch(code, p, true, divided("group", tiles_n * tiles_m));
  declare_pointer(code, "a", parameters[0], times64(batch, p.a.batch));
  declare_pointer(code, "b", parameters[1], matrices.b_begin(batch));
  code.line("// Rows and columns past the end read the last ones.");
  code.line(fmt::format("{} sums[{}], b_row[{}];", number, rows * columns, columns));
  code.line(fmt::format("for (int i = 0; i < {}; ++i) sums[i] = 0;", rows * columns));
  // `each`: how the loop over columns begins.
  const auto loop = [&](const auto& column_read, bool by_vectors) {
    const auto each = [&](const std::function<std::string(const std::string&)>& statement) {
      if (by_vectors)
        code.line(fmt::format("for (int j = 0; j < {}; ++j) {}", columns, statement("j")));
      else
        unrolled(code, "j", columns, [&](const std::string& j) { code.line(statement(j)); });
    };
    // LLVM 18 and 19 sum products of bytes wrongly on AMD's GPUs if they can join four of them (its issue
    // 112941).
    code.open(fmt::format("{}for (int k = 0; k < {}; ++k)",
                          size_of(factors) == 1 ? "_Pragma(\"unroll 1\") " : "", p.k));
    each([&](const std::string& j) {
      return fmt::format("b_row[{}] = {};", j, matrices.b_element("k", column_read(j)));
    });
    unrolled(code, "r", rows, [&](const std::string& r) {
      const std::string inside =
          p.m % (rows * group_y) == 0 ? row(r) : fmt::format("MIN({}, {})", row(r), p.m - 1);
      code.line(fmt::format("const {} x = {};", number, matrices.a_element(inside, "k")));
      each([&](const std::string& j) { return fmt::format("{} += x * b_row[{}];", sum(r, j), j); });
    });
    code.close();
  };
  const bool past_columns = p.n % (columns * group_x) != 0;
  const auto inside = [&](const std::string& j) {
    return past_columns ? fmt::format("MIN({}, {})", column(j), p.n - 1) : column(j);
  };
  if (group_x == 1 && columns > 1) {
    if (past_columns) code.open(fmt::format("if (n0 + {} <= {})", columns, p.n));
    loop(column, true);
    if (past_columns) {
      code.close();
      code.open("else");
      loop(inside, false);
      code.close();
    }
  } else {
    loop(inside, false);
  }
  std::string stored_if = p.m % (rows * group_y) != 0 ? fmt::format("row < {}", p.m) : "";
  if (past_columns) stored_if += fmt::format("{}column < {}", stored_if.empty() ? "" : " && ", p.n);
  unrolled(code, "r", rows, [&](const std::string& r) {
    unrolled(code, "j", columns, [&](const std::string& j) {
      code.line(fmt::format("const int row = {}, column = {};", row(r), column(j)));
      const std::string store = fmt::format("STORE({}, c, {}, {});", language_name(p.dtype),
                                            place_of_result(p, matrices, "row", "column"),
                                            finished(p, matrices, sum(r, j), "row", "column"));
      code.line(stored_if.empty() ? store : fmt::format("if ({}) {}", stored_if, store));
    });
  });
  code.close();
  return p.epilogue.function() + matrices.b_functions + code.text();
}

}  // namespace

GpuCandidate plain_gemm_candidate(const GemmProblem& p, int64_t rows, int64_t columns, int64_t group_x,
                                  int64_t group_y) {
  const std::string type = "const " + stored(p.factors.value_or(p.dtype));
  const std::vector<Parameter> parameters = gemm_parameters(
      {{"a_matrices", type, {p.a.buffer, p.a.start}}, {"b_matrices", type, {p.b.buffer, p.b.start}}}, p, true,
      {"c", stored(p.dtype), {p.c.buffer, p.c.start}});
  GpuLaunch launch{
      .name = "gemm_plain",
      .source = plain_kernel(p, rows, columns, group_x, group_y, parameters),
      .groups = {ceil_div(p.m, rows * group_y) * ceil_div(p.n, columns * group_x) * p.batch, 1, 1},
      .group_size = {group_x, group_y, 1},
      .arguments = arguments_of(parameters)};
  return {.name = fmt::format("plain gemm {}x{}", rows * group_y, columns * group_x),
          .parameters = {{"rows", rows}, {"columns", columns}, {"group_x", group_x}, {"group_y", group_y}},
          .launches = {std::move(launch)}};
}

}  // namespace athanor::gpu
