// Writes the kernel of a product for a point of its tuning space.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// A group computes a tile of C. An item has rows x vectors vectors of floats in registers. With subtiles,
/// it computes several blocks of rows in turn, k_step at a time, so that a block of B stays in the first-
/// level cache.
class GemmKernel {
 public:
  GemmKernel(const GemmProblem& problem, const GemmPoint& point)
      : p_(problem),
        matrices_(matrices_of(problem)),
        point_(point),
        k_step_(point.k_step > 0 ? std::min(point.k_step, problem.k) : problem.k),
        a_type_(point.a == GemmSource::packed ? "f32" : stored(problem.dtype)),
        b_type_(point.b == GemmSource::packed ? "f32" : stored(problem.dtype)),
        c_type_(point.splits > 1 ? "f32" : stored(problem.dtype)) {}

  std::string text() {
    begin();
    find_tile();
    declare();
    code_.open(fmt::format("for (int k0 = k_begin; k0 < k_end; k0 += {})", k_step_));
    code_.line(fmt::format("const int k_count = MIN({}, k_end - k0);", k_step_));
    if (a_staged()) stage_a();
    if (b_staged()) stage_b();
    wait();
    multiply_blocks();
    wait();
    code_.close();
    code_.close();
    return code_.text();
  }

 private:
  int64_t items() const { return point_.group_x * point_.group_y; }
  bool a_staged() const { return point_.a == GemmSource::staged; }
  bool b_staged() const { return point_.b == GemmSource::staged; }
  bool as_parts() const { return point_.splits > 1; }

  void begin() {
    code_.line(fmt::format("KERNEL void gemm(BUFFER(const {}, a_matrices), BUFFER(const {}, b_matrices),",
                           a_type_, b_type_));
    code_.open(fmt::format("                 EPILOGUE_PARAMETERS BUFFER({}, c_matrices))", c_type_));
    code_.line(fmt::format("BIND(const {}, a_matrices);", a_type_));
    code_.line(fmt::format("BIND(const {}, b_matrices);", b_type_));
    code_.line("EPILOGUE_BIND");
    code_.line(fmt::format("BIND({}, c_matrices);", c_type_));
  }

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
    take("batch", p_.batch);
    if (as_parts())
      code_.line(
          fmt::format("const int k_begin = group * {0}, k_end = MIN(k_begin + {0}, {1});", part_k, p_.k));
    else
      code_.line(fmt::format("const int k_begin = 0, k_end = {};", p_.k));
    if (point_.b == GemmSource::direct) {
      code_.line("// The last tile of a direct source is moved inside the matrix and computes some elements");
      code_.line("// twice. Two groups then store the same bits: an element has the same terms in the same");
      code_.line("// order in whichever tile it lies, and no input shares memory with the result.");
      code_.line(
          fmt::format("const int n0 = MIN(tile_n * {}, {});", point_.tile_n(), p_.n - point_.tile_n()));
    } else {
      code_.line(fmt::format("const int n0 = tile_n * {};", point_.tile_n()));
    }
    if (point_.a == GemmSource::packed)
      code_.line(fmt::format("GLOBAL const f32 *const a = a_matrices + {} * (i64){};",
                             p_.a.batch == 0 ? "0" : "batch",
                             ceil_div(p_.m, point_.block_m()) * point_.block_m() * p_.k));
    else
      code_.line(
          fmt::format("GLOBAL const {} *const a = a_matrices + batch * (i64){};", a_type_, p_.a.batch));
    if (point_.b == GemmSource::packed)
      code_.line(fmt::format("GLOBAL const f32 *const b = b_matrices + {} * (i64){};",
                             p_.b.batch == 0 ? "tile_n" : fmt::format("(batch * (i64){} + tile_n)", tiles_n),
                             p_.k * point_.tile_n()));
    else
      code_.line(fmt::format("GLOBAL const {} *const b = b_matrices + B_MATRIX(batch);", b_type_));
    if (as_parts())
      code_.line(fmt::format("GLOBAL f32 *const c = c_matrices + (group * (i64){} + batch) * (i64){};",
                             p_.batch, p_.m * p_.n));
    else
      code_.line(fmt::format("GLOBAL {} *const c = c_matrices + batch * (i64){};", c_type_, p_.c.batch));
  }

  // Loops over an item's rows and vectors.
  void open_sums() {
    code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
    code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
  }
  void close_sums() { code_.close(), code_.close(); }
  void clear_sums() {
    open_sums();
    code_.line("sums[r][v] = (vector)(0.0f);");
    close_sums();
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
    code_.line(fmt::format("vector sums[{}][{}];", point_.rows, point_.vectors));
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

  void stage_a() {
    const int64_t tile = point_.tile_m();
    code_.open(fmt::format("for (int e = item; e < {}; e += {})", k_step_ * tile, items()));
    code_.line(matrices_.a_along_k ? fmt::format("const int k = e % {0}, m = e / {0};", k_step_)
                                   : fmt::format("const int k = e / {0}, m = e % {0};", tile));
    code_.line(fmt::format("a_tile[k * {} + m] = k < k_count && m0 + m < {} ? A_AT(m0 + m, k0 + k) : 0;",
                           a_pitch(point_), p_.m));
    code_.close();
  }

  void stage_b() {
    const int64_t tile = point_.tile_n();
    if (items() == 1 && matrices_.stage_b) return matrices_.stage_b(code_, tile);
    if (!matrices_.b_along_k && items() % tile == 0) {
      code_.open(fmt::format("for (int k = item / {0}; k < {1}; k += {2})", tile, k_step_, items() / tile));
      code_.line(fmt::format("const int n = item % {};", tile));
    } else {
      code_.open(fmt::format("for (int e = item; e < {}; e += {})", k_step_ * tile, items()));
      code_.line(matrices_.b_along_k ? fmt::format("const int k = e % {0}, n = e / {0};", k_step_)
                                     : fmt::format("const int k = e / {0}, n = e % {0};", tile));
    }
    code_.line(fmt::format("b_tile[k * {} + n] = k < k_count && n0 + n < {} ? B_AT(k0 + k, n0 + n) : 0;",
                           tile, p_.n));
    code_.close();
  }

  /// An item's rows lie together.
  std::string first_row() const { return point_.group_y == 1 ? "0" : times("LOCAL_ID(1)", point_.rows); }
  /// Its vectors lie a vector of each item apart, so that neighbouring items read neighbouring memory.
  std::string column() const {
    const std::string vector =
        point_.group_x == 1 ? "v" : fmt::format("(v * {} + LOCAL_ID(0))", point_.group_x);
    return times(vector, point_.width);
  }

  void multiply_blocks() {
    const int64_t block = point_.block_m();
    std::string begin = "m0";
    if (point_.subtiles > 1) {
      code_.open("for (int s = 0; s < subtiles; ++s)");
      begin = fmt::format("m0 + s * {}", block);
      code_.open("if (k0 > k_begin)");
      open_sums();
      code_.line(fmt::format("sums[r][v] = VLOAD({}, kept, {});", point_.width, place_of_kept()));
      close_sums();
      code_.close();
      code_.open("else");
      clear_sums();
      code_.close();
    }
    multiply(begin);
    const bool several = point_.subtiles > 1;
    if (several) {
      code_.open(fmt::format("if (k0 + {} < k_end)", k_step_));
      open_sums();
      code_.line(fmt::format("VSTORE({}, kept, {}, sums[r][v]);", point_.width, place_of_kept()));
      close_sums();
      code_.close();
      code_.open("else");
    } else {
      code_.open(fmt::format("if (k0 + {} >= k_end)", k_step_));
    }
    store();
    code_.close();
    if (several) code_.close();
  }

  std::string place_of_kept() const {
    return fmt::format("((s * {} + r) * {} + v) * {}", point_.rows, point_.vectors, point_.width);
  }

  void multiply(const std::string& begin) {
    const int64_t block = point_.block_m(), tile_n = point_.tile_n(), width = point_.width;
    const std::string dtype(language_name(p_.dtype)), column = this->column();
    std::string a_element, a_begin, a_next, b_vector, b_begin, b_next;
    switch (point_.a) {
      case GemmSource::direct:
        code_.line(fmt::format("const int m = {};",
                               plus(fmt::format("MIN({}, {})", begin, p_.m - block), first_row())));
        code_.line("INDEX a_at = A_BEGIN(m, k0);");
        a_element = fmt::format("LOAD({}, a, a_at + r * (INDEX){})", dtype, p_.a.row);
        a_next = fmt::format("{}", p_.a.column);
        break;
      case GemmSource::packed:
        code_.line(fmt::format("const int m = {};", plus(begin, first_row())));
        code_.line(fmt::format("INDEX a_at = {};", plus(fmt::format("((INDEX)(({}) / {}) * {} + k0) * {}",
                                                                    begin, block, p_.k, block),
                                                        first_row())));
        a_element = "a[a_at + r]";
        a_next = fmt::format("{}", block);
        break;
      case GemmSource::staged:
        code_.line(fmt::format("const int m = {};", plus(begin, first_row())));
        code_.line(fmt::format("int a_at = {};",
                               plus(point_.subtiles > 1 ? fmt::format("s * {}", block) : "0", first_row())));
        a_element = "a_tile[a_at + r]";
        a_next = fmt::format("{}", a_pitch(point_));
        break;
    }
    switch (point_.b) {
      case GemmSource::direct:
        b_begin = "n0 + B_START(k0)";
        b_vector = fmt::format("LOAD_VECTOR(b, b_at + {})", column);
        b_next = fmt::format("{}", p_.b.row);
        break;
      case GemmSource::packed:
        b_begin = fmt::format("k0 * (INDEX){}", tile_n);
        b_vector = fmt::format("VLOAD({}, b, b_at + {})", width, column);
        b_next = fmt::format("{}", tile_n);
        break;
      case GemmSource::staged:
        b_begin = "0";
        b_vector = fmt::format("VLOAD({}, b_tile, b_at + {})", width, column);
        b_next = fmt::format("{}", tile_n);
        break;
    }
    code_.line(fmt::format("INDEX b_at = {};", b_begin));
    code_.open("for (int k = 0; k < k_count; ++k)");
    code_.line(fmt::format("vector b_row[{}];", point_.vectors));
    code_.line(fmt::format("UNROLL for (int v = 0; v < {}; ++v) b_row[v] = {};", point_.vectors, b_vector));
    code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
    code_.line(fmt::format("const f32 a_element = {};", a_element));
    code_.line(fmt::format(
        "UNROLL for (int v = 0; v < {}; ++v) sums[r][v] = MULTIPLY_ADD(a_element, b_row[v], sums[r][v]);",
        point_.vectors));
    code_.close();
    code_.line(fmt::format("a_at += {};", a_next));
    code_.line(fmt::format("b_at += {};", b_next));
    code_.close();
  }

  /// Stores an element, or a part of its sum, which gemm_sum adds to the others.
  std::string store_element(const std::string& column, const std::string& x) const {
    return as_parts()
               ? fmt::format("c[row * (INDEX){} + {}] = {};", p_.n, column, x)
               : fmt::format("STORE({}, c, C_OFFSET(row, {}), {});", language_name(p_.dtype), column, x);
  }
  std::string finished(const std::string& x, const std::string& column) const {
    return as_parts() ? x : fmt::format("FINISHED({}, row, {})", x, column);
  }

  void store() {
    const int64_t width = point_.width;
    const bool by_vectors = as_parts() || (p_.dtype == DType::f32 && matrices_.c_run % width == 0);
    const bool past_rows = point_.a != GemmSource::direct && p_.m % point_.block_m() != 0;
    const bool past_columns = point_.b != GemmSource::direct && p_.n % point_.tile_n() != 0;
    code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows));
    code_.line("const int row = m + r;");
    if (past_rows) code_.open(fmt::format("if (row < {})", p_.m));
    code_.open(fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors));
    code_.line(fmt::format("const int column = n0 + {};", column()));
    code_.line(fmt::format("f32 lanes[{}];", width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[r][v]);", width));
    if (past_columns) {
      code_.open(fmt::format("if (column + {} > {})", width, p_.n));
      code_.line(fmt::format("for (int i = 0; i < {} && column + i < {}; ++i) {}", width, p_.n,
                             store_element("column + i", finished("lanes[i]", "column + i"))));
      code_.line("continue;");
      code_.close();
    }
    code_.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) lanes[i] = {};", width,
                           finished("lanes[i]", "column + i")));
    if (by_vectors)
      code_.line(
          fmt::format("VSTORE({0}, c, {1}, VLOAD({0}, lanes, 0));", width,
                      as_parts() ? fmt::format("row * (INDEX){} + column", p_.n) : "C_OFFSET(row, column)"));
    else
      code_.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) {}", width,
                             store_element("column + i", "lanes[i]")));
    code_.close();
    if (past_rows) code_.close();
    code_.close();
  }

  Code code_;
  const GemmProblem& p_;
  GemmMatrices matrices_;
  GemmPoint point_;
  int64_t k_step_;
  std::string a_type_, b_type_, c_type_;  // of elements in memory: packed matrices and parts of sums are f32
};

}  // namespace

std::string gemm_kernel(const GemmProblem& problem, const GemmPoint& point) {
  return GemmKernel(problem, point).text();
}

}  // namespace athanor::gpu
