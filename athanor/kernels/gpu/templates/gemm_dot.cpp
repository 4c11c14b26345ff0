// Products of few rows or columns, as dot products along K.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

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
  std::string name, type, start;
  GemmMatrices::Of vector, element;  // the vector of a line at `k`, and its element at `tail`
};

Lines lines_of(const GemmProblem& p, bool of_a, bool packed, const GemmVectors& vectors) {
  const GemmProblem::Operand& x = of_a ? p.a : p.b;
  const std::string matrix = of_a ? "a" : "b", name = of_a ? "a_rows" : "b_columns",
                    first = of_a ? "m0" : "n0", batch = batch_of(p);
  const int64_t apart = packed ? p.k : of_a ? p.a.row : p.b.column, lines = of_a ? p.m : p.n;
  const auto at = [apart, wide = has_wide_index(p)](const char* k, const std::string& line) {
    return plus(k, strided(line, apart, wide));
  };
  if (packed)
    return {name, "const f32",
            plus(matrix, times64(operand(plus(times64(x.batch == 0 ? "0" : batch, lines), first)), p.k)),
            [=](const std::string& line) {
              return fmt::format("VLOAD({}, {}, {})", vectors.width, name, at("k", line));
            },
            [=](const std::string& line) { return fmt::format("{}[{}]", name, at("tail", line)); }};
  return {name, "const " + stored(p.dtype),
          plus(matrix, plus(times64(batch, x.batch), times64(first, apart))),
          [=](const std::string& line) { return vectors.load(name, at("k", line)); },
          [=](const std::string& line) {
            return fmt::format("LOAD({}, {}, {})", language_name(vectors.dtype), name, at("tail", line));
          }};
}

/// An item computes rows x columns dot products with vectors along K; the items of a group share one K.
class DotKernel {
 public:
  DotKernel(const GemmProblem& problem, const DotPoint& point, bool pack_a, bool pack_b)
      : p_(problem),
        point_(point),
        vectors_{problem.dtype, point.width, point.by_registers},
        a_(lines_of(problem, true, pack_a, vectors_)),
        b_(lines_of(problem, false, pack_b, vectors_)),
        calls_(!(pack_a && pack_b)) {}

  std::string text(const std::vector<Parameter>& parameters) {
    open_kernel(code_, "gemm_dot", parameters, false);
    find_lines();
    add_products();
    add_lanes();
    if (point_.items > 1)
      add_items();
    else
      store("totals[i]", fmt::format("UNROLL for (int i = 0; i < {}; ++i)", sums()));
    code_.close();
    return p_.epilogue.function() + (calls_ ? vectors_.function() : "") + code_.text();
  }

 private:
  int64_t sums() const { return point_.rows * point_.columns; }

  void find_lines() {
    const int64_t tiles_m = ceil_div(p_.m, point_.rows), tiles_n = ceil_div(p_.n, point_.columns);
    // Lines at the end are moved inside the matrix.
    const auto first = [&](const char* name, const std::string& tile, int64_t lines, int64_t extent) {
      const std::string at = times(tile, lines);
      code_.line(fmt::format("const int {} = {};", name,
                             extent % lines == 0 ? at : fmt::format("MIN({}, {})", at, extent - lines)));
    };
    code_.line("const int group = GROUP_ID(0);");
    first("n0", remainder("group", tiles_n), point_.columns, p_.n);
    first("m0", remainder(divided("group", tiles_n), tiles_m), point_.rows, p_.m);
    declare_batch(code_, p_, true, divided("group", tiles_n * tiles_m));
    for (const Lines& x : {a_, b_})
      code_.line(fmt::format("GLOBAL {} *const {} = {};", x.type, x.name, x.start));
  }

  using OfSum = std::function<void(const std::string& r, const std::string& j)>;
  void each_sum(const OfSum& body) {
    unrolled(code_, "r", point_.rows, [&](const std::string& r) {
      unrolled(code_, "j", point_.columns, [&](const std::string& j) { body(r, j); });
    });
  }

  void add_products() {
    const std::string type = vectors_.type();
    code_.line(fmt::format("{} sums[{}][{}];", type, point_.rows, point_.columns));
    each_sum([&](const std::string& r, const std::string& j) {
      code_.line(fmt::format("sums[{}][{}] = {};", r, j, vectors_.zero()));
    });
    code_.line(fmt::format("int k = {};", point_.items == 1 ? "0" : times("LOCAL_ID(0)", point_.width)));
    code_.open(fmt::format("for (; k + {} <= {}; k += {})", point_.width, p_.k, point_.width * point_.items));
    code_.line(fmt::format("{} b_part[{}];", type, point_.columns));
    unrolled(code_, "j", point_.columns,
             [&](const std::string& j) { code_.line(fmt::format("b_part[{}] = {};", j, b_.vector(j))); });
    unrolled(code_, "r", point_.rows, [&](const std::string& r) {
      code_.line(fmt::format("const {} a_part = {};", type, a_.vector(r)));
      unrolled(code_, "j", point_.columns, [&](const std::string& j) {
        const std::string sum = fmt::format("sums[{}][{}]", r, j);
        code_.line(
            fmt::format("{} = {};", sum, vectors_.multiply_add("a_part", fmt::format("b_part[{}]", j), sum)));
      });
    });
    code_.close();
  }

  void add_lanes() {
    const int64_t width = point_.width;
    code_.line(fmt::format("f32 totals[{}];", sums()));
    each_sum([&](const std::string& r, const std::string& j) {
      code_.line(fmt::format("f32 lanes[{}];", width));
      code_.line(fmt::format("VSTORE({}, lanes, 0, sums[{}][{}]);", width, r, j));
      if (width > 1) {
        code_.line("// Adds in pairs: in a chain, each addition would wait for the one before.");
        code_.open(fmt::format("UNROLL for (int reach = {}; reach > 0; reach /= 2)", width / 2));
        code_.line("UNROLL for (int i = 0; i < reach; ++i) lanes[i] += lanes[i + reach];");
        code_.close();
      }
      code_.line("f32 total = lanes[0];");
      if (p_.k % width != 0) {
        code_.line("// The item whose vector would reach over the end computes the remaining elements.");
        code_.line(fmt::format("for (int tail = k; tail < {}; ++tail) total = FMA({}, {}, total);", p_.k,
                               a_.element(r), b_.element(j)));
      }
      code_.line(fmt::format("totals[{}] = total;", plus(times(r, point_.columns), j)));
    });
  }

  void add_items() {
    const int64_t items = point_.items;
    const auto each = [&](const std::string& i) { return plus(times(i, items), "LOCAL_ID(0)"); };
    code_.line(fmt::format("LOCAL f32 shared[{}];", sums() * items));
    unrolled(code_, "i", sums(),
             [&](const std::string& i) { code_.line(fmt::format("shared[{}] = totals[{}];", each(i), i)); });
    code_.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", items / 2));
    code_.line("BARRIER();");
    code_.open("if (LOCAL_ID(0) < reach)");
    unrolled(code_, "i", sums(), [&](const std::string& i) {
      code_.line(fmt::format("shared[{0}] += shared[{0} + reach];", each(i)));
    });
    code_.close();
    code_.close();
    code_.line("BARRIER();");
    store(fmt::format("shared[i * {}]", items),
          fmt::format("for (int i = LOCAL_ID(0); i < {}; i += {})", sums(), items));
  }

  void store(const std::string& total, const std::string& loop) {
    const GemmMatrices matrices = matrices_of(p_);
    code_.open(loop);
    code_.line(fmt::format("const f32 total = {};", total));
    code_.line(fmt::format("const int row = {}, column = {};", plus("m0", divided("i", point_.columns)),
                           plus("n0", remainder("i", point_.columns))));
    code_.line(fmt::format("STORE({}, c, {}, {});", language_name(p_.dtype),
                           place_of_result(p_, matrices, "row", "column"),
                           finished(p_, matrices, "total", "row", "column")));
    code_.close();
  }

  Code code_;
  const GemmProblem& p_;
  const DotPoint& point_;
  GemmVectors vectors_;
  Lines a_, b_;
  bool calls_;  // load_vector()
};

}  // namespace

GpuCandidate dot_candidate(const GemmProblem& p, const DotPoint& point) {
  GpuCandidate candidate;
  GemmScratch scratch{p.scratch_buffer, p.scratch_start};
  // A matrix that is not contiguous along k is packed so that it is.
  const bool pack_a = p.a.column != 1, pack_b = p.b.row != 1;
  const auto source = [&](bool packs_a) -> Parameter {
    const GemmProblem::Operand& x = packs_a ? p.a : p.b;
    const std::string name = packs_a ? "a" : "b";
    if (!(packs_a ? pack_a : pack_b)) return {name, "const " + stored(p.dtype), {x.buffer, x.start}};
    const GpuLaunch::Argument to = scratch.take((x.batch == 0 ? 1 : p.batch) * (packs_a ? p.m : p.n) * p.k);
    candidate.launches.push_back(pack_launch(p, packs_a, 1, point.items == 1, to));
    return {name, "const f32", to};
  };
  Parameter a = source(true), b = source(false);
  const std::vector<Parameter> parameters =
      gemm_parameters({std::move(a), std::move(b)}, p, true, {"c", stored(p.dtype), {p.c.buffer, p.c.start}});
  const auto [rows, columns, width, items, by_registers] = point;
  candidate.launches.push_back({.name = "gemm_dot",
                                .source = DotKernel(p, point, pack_a, pack_b).text(parameters),
                                .groups = {ceil_div(p.m, rows) * ceil_div(p.n, columns) * p.batch, 1, 1},
                                .group_size = {items, 1, 1},
                                .local_bytes = items > 1 ? rows * columns * items * 4 : 0,
                                .arguments = arguments_of(parameters)});
  candidate.name =
      fmt::format("dot {}x{} by {}{}", rows, columns, width * items, pack_a || pack_b ? " packed" : "");
  candidate.parameters = {{"rows", rows}, {"columns", columns}, {"width", width}, {"items", items}};
  candidate.scratch_bytes = scratch.bytes;
  return candidate;
}

}  // namespace athanor::gpu
