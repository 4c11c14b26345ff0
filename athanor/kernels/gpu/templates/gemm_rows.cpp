// Products of few rows: reading B takes all the time.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t steps_at_once = 8;  // 128 bytes of B in flight, for each item

/// The elements of a row of B are contiguous. An item computes `vector` neighbouring columns, 16 bytes of B's
/// rows, in all rows of C. `beside` items lie beside each other, and the others of the group have other steps
/// along K.
class RowsKernel {
 public:
  RowsKernel(const GemmProblem& problem, int64_t vector, int64_t beside, int64_t items)
      : p_(problem),
        matrices_(matrices_of(problem)),
        wide_(has_wide_index(problem)),
        vector_(vector),
        beside_(beside),
        items_(items) {}

  std::string text(const std::vector<Parameter>& parameters) {
    open_kernel(code_, "gemm_rows", parameters, false);
    find_columns(parameters);
    code_.line(fmt::format("f32 sums[{}];", sums()));
    code_.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) sums[i] = 0;", sums()));
    add_products();
    add_parts();
    store();
    code_.close();
    return p_.epilogue.function() + code_.text();
  }

 private:
  int64_t sums() const { return p_.m * vector_; }
  int64_t parts() const { return items_ / beside_; }
  int64_t tile() const { return beside_ * vector_; }
  std::string type() const { return std::string(language_name(p_.dtype)); }

  void find_columns(const std::vector<Parameter>& parameters) {
    const int64_t tiles = ceil_div(p_.n, tile());
    code_.line(fmt::format("LOCAL f32 shared[{}];", sums() * items_));
    code_.line(fmt::format("const int item = LOCAL_ID(0), beside = item % {0}, part = item / {0};", beside_));
    code_.line(fmt::format("const int n0 = {};", times(remainder("GROUP_ID(0)", tiles), tile())));
    declare_batch(code_, p_, true, divided("GROUP_ID(0)", tiles));
    const std::string column = plus("n0", times("beside", vector_));
    if (p_.n % tile() == 0) {
      code_.line(fmt::format("const int column = {};", column));
    } else {
      code_.line("// Columns past the end read the last ones.");
      code_.line(fmt::format("const int column = MIN({}, {});", column, p_.n - vector_));
    }
    declare_pointer(code_, "a", parameters[0], times64(batch_of(p_), p_.a.batch));
    declare_pointer(code_, "b", parameters[1], operand(plus(times64(batch_of(p_), p_.b.batch), "column")));
  }

  std::string row_of_b(const std::string& k) const { return plus("b", strided(k, p_.b.row, wide_)); }

  /// sums += a's elements at step k times `part`, 16 bytes of B.
  void multiply(const std::string& k, const std::string& part) {
    unrolled(code_, "m", p_.m, [&](const std::string& m) {
      code_.line(fmt::format("const f32 factor = {};", matrices_.a_element(m, k)));
      const std::string sum = fmt::format("sums[{}]", plus(times(m, vector_), "e"));
      code_.line(fmt::format("UNROLL for (int e = 0; e < {}; ++e) {} = FMA(factor, ELEMENT({}, {}, e), {});",
                             vector_, sum, type(), part, sum));
    });
  }

  /// All items of a wave take the same branches up to the barrier.
  void add_products() {
    const int64_t at_once = steps_at_once * parts(), whole = p_.k / at_once * at_once;
    if (whole > 0) {
      code_.open(fmt::format("for (int first = 0; first < {}; first += {})", whole, at_once));
      code_.line("const int k = first + part;");
      const std::string k = plus("k", times("s", parts()));
      code_.line(fmt::format("u32x4 parts[{}];", steps_at_once));
      code_.line(fmt::format("UNROLL for (int s = 0; s < {}; ++s) READ_ALIGNED(4, parts[s], {});",
                             steps_at_once, row_of_b(k)));
      code_.open(fmt::format("UNROLL for (int s = 0; s < {}; ++s)", steps_at_once));
      multiply(k, "parts[s]");
      code_.close();
      code_.close();
    }
    if (whole == p_.k) return;
    code_.open(fmt::format("for (int first = {}; first < {}; first += {})", whole, p_.k, parts()));
    code_.line("const int k = first + part;");
    if (p_.k % parts() != 0) code_.open(fmt::format("if (k < {})", p_.k));
    code_.line("u32x4 one;");
    code_.line(fmt::format("READ_ALIGNED(4, one, {});", row_of_b("k")));
    multiply("k", "one");
    if (p_.k % parts() != 0) code_.close();
    code_.close();
  }

  void add_parts() {
    code_.line(
        fmt::format("UNROLL for (int i = 0; i < {}; ++i) shared[i * {} + item] = sums[i];", sums(), items_));
    code_.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", parts() / 2));
    code_.line("BARRIER();");
    code_.open("if (part < reach)");
    code_.line(
        fmt::format("UNROLL for (int i = 0; i < {0}; ++i) shared[i * {1} + item] += shared[i * {1} + "
                    "item + {2}];",
                    sums(), items_, times("reach", beside_)));
    code_.close();
    code_.close();
    code_.line("BARRIER();");
  }

  void store() {
    code_.open(fmt::format("for (int i = item; i < {}; i += {})", p_.m * tile(), items_));
    const std::string row = p_.m == 1 ? "0" : "row", of_tile = p_.m == 1 ? "i" : "of_tile";
    if (p_.m > 1) code_.line(fmt::format("const int row = i / {0}, of_tile = i % {0};", tile()));
    code_.line(fmt::format("const int column = n0 + {};", of_tile));
    const bool past = p_.n % tile() != 0;
    if (past) code_.open(fmt::format("if (column < {})", p_.n));
    const std::string sum = plus(times(row, vector_), remainder(of_tile, vector_));
    code_.line(fmt::format("const f32 total = shared[{} + {}];", times(operand(sum), items_),
                           divided(of_tile, vector_)));
    code_.line(fmt::format("STORE({}, c, {}, {});", type(), place_of_result(p_, matrices_, row, "column"),
                           finished(p_, matrices_, "total", row, "column")));
    if (past) code_.close();
    code_.close();
  }

  Code code_;
  const GemmProblem& p_;
  GemmMatrices matrices_;
  bool wide_;
  int64_t vector_, beside_, items_;
};

}  // namespace

bool is_of_few_rows(const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t most_rows = 7, least_k = 64;
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
  const std::string type = stored(p.dtype);
  const std::vector<Parameter> parameters =
      gemm_parameters({{"a_matrices", "const " + type, {p.a.buffer, p.a.start}},
                       {"b_matrices", "const " + type, {p.b.buffer, p.b.start}}},
                      p, true, {"c", type, {p.c.buffer, p.c.start}});
  GpuLaunch launch{.name = "gemm_rows",
                   .source = RowsKernel(p, vector, beside, items).text(parameters),
                   .groups = {groups, 1, 1},
                   .group_size = {items, 1, 1},
                   .local_bytes = items * p.m * vector * 4,
                   .arguments = arguments_of(parameters)};
  return {.name = fmt::format("rows {}x{} by {}", p.m, beside * vector, items),
          .parameters = {{"rows", p.m}, {"columns", beside * vector}, {"items", items}},
          .launches = {std::move(launch)}};
}

}  // namespace athanor::gpu
