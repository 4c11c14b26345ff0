// Writes the kernel of a product for a point of its tuning space.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

/// A group computes a tile of C. An item has rows x vectors vectors of floats in registers. With subtiles,
/// it computes several blocks of rows in turn, k_step at a time, so that a block of B stays in the first-
/// level cache.
class GemmKernel {
 public:
  GemmKernel(const GemmProblem& problem, const GemmPoint& point, const std::vector<Parameter>& parameters)
      : p_(problem),
        matrices_(matrices_of(problem)),
        point_(point),
        k_step_(point.k_step > 0 ? std::min(point.k_step, problem.k) : problem.k),
        k_begin_(point.splits > 1 ? "k_begin" : "0"),
        k_end_(point.splits > 1 ? "k_end" : std::to_string(problem.k)),
        k_count_(point.splits == 1 && problem.k % k_step_ == 0 ? std::to_string(k_step_) : "k_count"),
        vectors_{problem.dtype, point.width},
        index_(index_type(problem)),
        parameters_(parameters) {}

  std::string text() {
    open_kernel(code_, "gemm", parameters_, false);
    find_tile();
    declare();
    code_.open(fmt::format("for (int k0 = {}; k0 < {}; k0 += {})", k_begin_, k_end_, k_step_));
    // stage_b() names it.
    if (k_count_ == "k_count" || (b_staged() && stages_b_at_once()))
      code_.line(fmt::format("const int k_count = {};", k_count_ == "k_count"
                                                            ? fmt::format("MIN({}, {} - k0)", k_step_, k_end_)
                                                            : k_count_));
    if (a_staged()) stage_a();
    if (b_staged()) stage_b();
    wait();
    multiply_blocks();
    wait();
    code_.close();
    code_.close();
    std::string functions = as_parts() ? "" : p_.epilogue.function();
    if (b_direct()) functions += vectors_.function();
    if (b_staged()) functions += stages_b_at_once() ? matrices_.stage_functions : matrices_.b_functions;
    return functions + code_.text();
  }

 private:
  int64_t items() const { return point_.group_x * point_.group_y; }
  bool a_staged() const { return point_.a == GemmSource::staged; }
  bool b_staged() const { return point_.b == GemmSource::staged; }
  bool b_direct() const { return point_.b == GemmSource::direct; }
  bool stages_b_at_once() const { return items() == 1 && matrices_.stage_b; }
  bool as_parts() const { return point_.splits > 1; }

  /// The number of one of `count`, and what is left of the group's number.
  void take(const std::string& name, int64_t count, int64_t each = 1) {
    if (count == 1) return code_.line(fmt::format("const int {} = 0;", name));
    code_.line(fmt::format("const int {} = {};", name, times(fmt::format("group % {}", count), each)));
    code_.line(fmt::format("group /= {};", count));
  }

  void find_tile() {
    const int64_t tiles_m = ceil_div(p_.m, point_.tile_m()), tiles_n = ceil_div(p_.n, point_.tile_n());
    const int64_t part_k = ceil_div(p_.k, point_.splits);
    code_.line("// Groups that are launched after one another share a panel of B.");
    code_.line("int group = GROUP_ID(0);");
    take("m0", tiles_m, point_.tile_m());
    take("tile_n", tiles_n);
    declare_batch(code_, p_, !as_parts(), remainder("group", p_.batch));
    if (as_parts()) {
      if (p_.batch > 1) code_.line(fmt::format("group /= {};", p_.batch));
      code_.line(
          fmt::format("const int k_begin = group * {0}, k_end = MIN(k_begin + {0}, {1});", part_k, p_.k));
    }
    if (b_direct() && p_.n % point_.tile_n() != 0) {
      code_.line("// The last tile of a direct source is moved inside the matrix and computes some elements");
      code_.line("// twice. Two groups then store the same bits: an element has the same terms in the same");
      code_.line("// order in whichever tile it lies, and no input shares memory with the result.");
      code_.line(
          fmt::format("const int n0 = MIN(tile_n * {}, {});", point_.tile_n(), p_.n - point_.tile_n()));
    } else {
      code_.line(fmt::format("const int n0 = {};", times("tile_n", point_.tile_n())));
    }
    const std::string batch = batch_of(p_);
    if (point_.a == GemmSource::packed)
      declare_pointer(
          code_, "a", parameters_[0],
          p_.a.batch == 0 ? "0" : times64(batch, ceil_div(p_.m, point_.block_m()) * point_.block_m() * p_.k));
    else
      declare_pointer(code_, "a", parameters_[0], times64(batch, p_.a.batch));
    if (point_.b == GemmSource::packed)
      declare_pointer(code_, "b", parameters_[1],
                      times64(operand(plus(p_.b.batch == 0 ? "0" : times64(batch, tiles_n), "tile_n")),
                              p_.k * point_.tile_n()));
    else
      declare_pointer(code_, "b", parameters_[1], matrices_.b_begin(batch));
    if (as_parts())
      declare_pointer(code_, "c", parameters_.back(),
                      times64(operand(plus(times64("group", p_.batch), batch)), p_.m * p_.n));
    else
      declare_pointer(code_, "c", parameters_.back(), times64(batch, p_.c.batch));
  }

  // Loops over an item's rows and vectors.
  void each_sum(const std::function<void(const std::string& r, const std::string& v)>& body) {
    unrolled(code_, "r", point_.rows, [&](const std::string& r) {
      unrolled(code_, "v", point_.vectors, [&](const std::string& v) { body(r, v); });
    });
  }
  void clear_sums() {
    each_sum([&](const std::string& r, const std::string& v) {
      code_.line(fmt::format("sums[{}][{}] = {};", r, v, vectors_.zero()));
    });
  }

  void declare() {
    const auto local = [&](const char* name, int64_t floats) {
      code_.line(
          fmt::format("LOCAL __attribute__((aligned({}))) f32 {}[{}];", gemm_tile_alignment, name, floats));
    };
    if (a_staged()) local("a_tile", k_step_ * a_pitch(point_));
    if (b_staged()) local("b_tile", k_step_ * point_.tile_n());
    if (a_staged() || b_staged())
      code_.line(items() == 1
                     ? "const int item = 0;"
                     : fmt::format("const int item = LOCAL_ID(1) * {} + LOCAL_ID(0);", point_.group_x));
    if (b_staged() && items() == 1 && matrices_.begin_b) matrices_.begin_b(code_, point_.tile_n());
    code_.line(fmt::format("{} sums[{}][{}];", vectors_.type(), point_.rows, point_.vectors));
    if (point_.subtiles > 1) {
      code_.line(fmt::format("f32 kept[{}];", point_.subtiles * point_.rows * point_.vectors * point_.width));
      code_.line(fmt::format("const int subtiles = MIN({}, ({} - m0) / {});", point_.subtiles,
                             p_.m + point_.block_m() - 1, point_.block_m()));
    }
    clear_sums();
  }

  // A single item need not wait.
  void wait() {
    if ((a_staged() || b_staged()) && items() > 1) code_.line("BARRIER();");
  }

  /// An element of a tile at step k; 0 past the end, and where `inside` does not hold.
  std::string of_tile(std::string inside, const std::string& element) const {
    if (k_count_ == "k_count") inside = "k < k_count" + (inside.empty() ? "" : " && " + inside);
    return inside.empty() ? element : fmt::format("{} ? {} : 0", inside, element);
  }

  void stage_a() {
    const int64_t tile = point_.tile_m();
    code_.open(fmt::format("for (int e = item; e < {}; e += {})", k_step_ * tile, items()));
    code_.line(matrices_.a_along_k ? fmt::format("const int k = e % {0}, m = e / {0};", k_step_)
                                   : fmt::format("const int k = e / {0}, m = e % {0};", tile));
    code_.line(fmt::format("a_tile[k * {} + m] = {};", a_pitch(point_),
                           of_tile(p_.m % tile != 0 ? fmt::format("m0 + m < {}", p_.m) : "",
                                   matrices_.a_element("m0 + m", "k0 + k"))));
    code_.close();
  }

  void stage_b() {
    const int64_t tile = point_.tile_n();
    if (stages_b_at_once()) return matrices_.stage_b(code_, tile);
    if (!matrices_.b_along_k && items() % tile == 0) {
      code_.open(fmt::format("for (int k = item / {0}; k < {1}; k += {2})", tile, k_step_, items() / tile));
      code_.line(fmt::format("const int n = item % {};", tile));
    } else {
      code_.open(fmt::format("for (int e = item; e < {}; e += {})", k_step_ * tile, items()));
      code_.line(matrices_.b_along_k ? fmt::format("const int k = e % {0}, n = e / {0};", k_step_)
                                     : fmt::format("const int k = e / {0}, n = e % {0};", tile));
    }
    code_.line(fmt::format("b_tile[k * {} + n] = {};", tile,
                           of_tile(p_.n % tile != 0 ? fmt::format("n0 + n < {}", p_.n) : "",
                                   matrices_.b_element("k0 + k", "n0 + n"))));
    code_.close();
  }

  /// An item's rows lie together.
  std::string first_row() const { return point_.group_y == 1 ? "0" : times("LOCAL_ID(1)", point_.rows); }
  /// Its vectors lie a vector of each item apart, so that neighbouring items read neighbouring memory.
  std::string column(const std::string& v) const {
    const std::string vector = point_.group_x == 1 ? v : plus(times(v, point_.group_x), "LOCAL_ID(0)");
    return times(operand(vector), point_.width);
  }

  void multiply_blocks() {
    const int64_t block = point_.block_m();
    std::string begin = "m0";
    if (point_.subtiles > 1) {
      code_.open("for (int s = 0; s < subtiles; ++s)");
      begin = fmt::format("m0 + s * {}", block);
      code_.open(fmt::format("if (k0 > {})", k_begin_));
      each_sum([&](const std::string& r, const std::string& v) {
        code_.line(
            fmt::format("sums[{}][{}] = VLOAD({}, kept, {});", r, v, point_.width, place_of_kept(r, v)));
      });
      code_.close();
      code_.open("else");
      clear_sums();
      code_.close();
    }
    multiply(begin);
    const bool several = point_.subtiles > 1;
    if (several) {
      code_.open(fmt::format("if (k0 + {} < {})", k_step_, k_end_));
      each_sum([&](const std::string& r, const std::string& v) {
        code_.line(
            fmt::format("VSTORE({}, kept, {}, sums[{}][{}]);", point_.width, place_of_kept(r, v), r, v));
      });
      code_.close();
      code_.open("else");
    } else {
      code_.open(fmt::format("if (k0 + {} >= {})", k_step_, k_end_));
    }
    store();
    code_.close();
    if (several) code_.close();
  }

  std::string place_of_kept(const std::string& r, const std::string& v) const {
    const std::string row = plus(times("s", point_.rows), r);
    return times(operand(plus(times(operand(row), point_.vectors), v)), point_.width);
  }

  void multiply(const std::string& begin) {
    const int64_t block = point_.block_m(), tile_n = point_.tile_n(), width = point_.width;
    const std::string dtype(language_name(p_.dtype));
    const bool wide = index_ == "i64";
    std::string first_m = begin, a_type = index_, a_begin, b_begin;
    int64_t a_next = 0, b_next = 0;
    std::function<std::string(const std::string&)> a_element, b_vector;
    switch (point_.a) {
      case GemmSource::direct:
        if (p_.m % block != 0) first_m = fmt::format("MIN({}, {})", begin, p_.m - block);
        a_begin = matrices_.a_place("m", "k0");
        a_element = [&](const std::string& r) {
          return fmt::format("LOAD({}, a, {})", dtype, plus("a_at", strided(r, p_.a.row, wide)));
        };
        a_next = p_.a.column;
        break;
      case GemmSource::packed:
        a_begin = plus(strided(plus(strided(divided(operand(begin), block), p_.k, wide), "k0"), block, wide),
                       first_row());
        a_element = [](const std::string& r) { return fmt::format("a[{}]", plus("a_at", r)); };
        a_next = block;
        break;
      case GemmSource::staged:
        a_type = "int";
        a_begin = plus(point_.subtiles > 1 ? times("s", block) : "0", first_row());
        a_element = [](const std::string& r) { return fmt::format("a_tile[{}]", plus("a_at", r)); };
        a_next = a_pitch(point_);
        break;
    }
    switch (point_.b) {
      case GemmSource::direct:
        b_begin = plus("n0", matrices_.b_row("k0"));
        b_vector = [&](const std::string& v) { return vectors_.load("b", plus("b_at", column(v))); };
        b_next = p_.b.row;
        break;
      case GemmSource::packed:
      case GemmSource::staged:
        b_begin = b_staged() ? "0" : strided("k0", tile_n, wide);
        b_vector = [&](const std::string& v) {
          return fmt::format("VLOAD({}, {}, {})", width, b_staged() ? "b_tile" : "b",
                             plus("b_at", column(v)));
        };
        b_next = tile_n;
        break;
    }
    code_.line(fmt::format("const int m = {};", plus(first_m, first_row())));
    code_.line(fmt::format("{} a_at = {};", a_type, a_begin));
    code_.line(fmt::format("{} b_at = {};", index_, b_begin));
    code_.open(fmt::format("for (int k = 0; k < {}; ++k)", k_count_));
    code_.line(fmt::format("{} b_row[{}];", vectors_.type(), point_.vectors));
    unrolled(code_, "v", point_.vectors,
             [&](const std::string& v) { code_.line(fmt::format("b_row[{}] = {};", v, b_vector(v))); });
    unrolled(code_, "r", point_.rows, [&](const std::string& r) {
      code_.line(fmt::format("const f32 a_element = {};", a_element(r)));
      unrolled(code_, "v", point_.vectors, [&](const std::string& v) {
        const std::string sum = fmt::format("sums[{}][{}]", r, v);
        code_.line(fmt::format("{} = {};", sum,
                               vectors_.multiply_add("a_element", fmt::format("b_row[{}]", v), sum)));
      });
    });
    code_.line(fmt::format("a_at += {};", a_next));
    code_.line(fmt::format("b_at += {};", b_next));
    code_.close();
  }

  /// Stores an element, or a part of its sum, which gemm_sum adds to the others.
  std::string place(const std::string& column) const {
    return as_parts() ? plus(strided("row", p_.n, index_ == "i64"), column)
                      : matrices_.c_place("row", column);
  }
  std::string store_element(const std::string& column, const std::string& x) const {
    return as_parts() ? fmt::format("c[{}] = {};", place(column), x)
                      : fmt::format("STORE({}, c, {}, {});", language_name(p_.dtype), place(column), x);
  }
  std::string with_epilogue(const std::string& x, const std::string& column) const {
    return as_parts() ? x : finished(p_, matrices_, x, "row", column);
  }

  void store() {
    const bool past_rows = point_.a != GemmSource::direct && p_.m % point_.block_m() != 0;
    unrolled(code_, "r", point_.rows, [&](const std::string& r) {
      code_.line(fmt::format("const int row = {};", plus("m", r)));
      if (past_rows) code_.open(fmt::format("if (row < {})", p_.m));
      unrolled(code_, "v", point_.vectors, [&](const std::string& v) { store_vector(r, v); });
      if (past_rows) code_.close();
    });
  }

  void store_vector(const std::string& r, const std::string& v) {
    const int64_t width = point_.width;
    const bool past_columns = !b_direct() && p_.n % point_.tile_n() != 0;
    code_.line(fmt::format("const int column = {};", plus("n0", column(v))));
    code_.line(fmt::format("f32 lanes[{}];", width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[{}][{}]);", width, r, v));
    if (past_columns) {
      code_.open(fmt::format("if (column + {} > {})", width, p_.n));
      code_.line(fmt::format("for (int i = 0; i < {} && column + i < {}; ++i) {}", width, p_.n,
                             store_element("column + i", with_epilogue("lanes[i]", "column + i"))));
      code_.close();
      code_.open("else");
    }
    const std::string each_lane = fmt::format("UNROLL for (int i = 0; i < {}; ++i) ", width);
    if (as_parts() || (p_.dtype == DType::f32 && matrices_.c_run % width == 0)) {
      if (!as_parts() && !p_.epilogue.empty())
        code_.line(each_lane + fmt::format("lanes[i] = {};", with_epilogue("lanes[i]", "column + i")));
      code_.line(fmt::format("VSTORE({0}, c, {1}, VLOAD({0}, lanes, 0));", width, place("column")));
    } else {
      code_.line(each_lane + store_element("column + i", with_epilogue("lanes[i]", "column + i")));
    }
    if (past_columns) code_.close();
  }

  Code code_;
  const GemmProblem& p_;
  GemmMatrices matrices_;
  GemmPoint point_;
  int64_t k_step_;
  std::string k_begin_, k_end_, k_count_;
  GemmVectors vectors_;
  std::string index_;
  const std::vector<Parameter>& parameters_;
};

}  // namespace

std::string gemm_kernel(const GemmProblem& problem, const GemmPoint& point,
                        const std::vector<Parameter>& parameters) {
  return GemmKernel(problem, point, parameters).text();
}

}  // namespace athanor::gpu
