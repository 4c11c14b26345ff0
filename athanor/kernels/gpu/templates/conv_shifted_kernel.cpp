// Writes the kernel of convolutions by shifted runs of pixels.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv_shifted.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

/// A run of pixels is multiplied by each tap as it lies in memory, shifted. It continues from row to row; its
/// results between rows are dropped. For an image with steps, every step-th row and column lie together, as
/// shifted_copy() writes them.
class ShiftedKernel {
 public:
  ShiftedKernel(const GemmProblem& problem, const ConvData& data, const PixelRuns& runs,
                const ShiftedPoint& point, int64_t each)
      : p_(problem),
        data_(data),
        runs_(runs),
        point_(point),
        each_(each),
        span_(runs.span(data)),
        vectors_{problem.dtype, point.width} {}

  std::string text(const std::vector<Parameter>& parameters) {
    const std::string type = stored(p_.dtype);
    open_kernel(code_, "conv_shifted", parameters, false);
    const int64_t row_tiles = ceil_div(p_.m, point_.rows), run_tiles = ceil_div(span_, point_.tile());
    open_tiles(code_, each_, row_tiles * run_tiles * p_.batch * data_.out[0]);
    take_of_tile(code_, "row_tile", row_tiles);
    take_of_tile(code_, "run_tile", run_tiles);
    take_of_tile(code_, "batch", p_.batch);
    code_.line("const int image = tile;");
    find_rows(code_, p_.m, point_.rows);
    code_.line(fmt::format("const int first = run_tile * {}{};", point_.tile(),
                           point_.items == 1 ? "" : " + " + times("LOCAL_ID(0)", point_.width)));
    code_.line(fmt::format("GLOBAL const {} *const w = weights + (batch * {} + m0 * {});", type, p_.a.batch,
                           data_.weight_m));
    code_.line(fmt::format("GLOBAL const {} *const from = images + (image * {} + batch * {});", type,
                           runs_.image, runs_.channel * data_.channels_in));
    declare();
    multiply();
    store();
    close_tiles(code_, each_);
    code_.close();
    return p_.epilogue.function() + vectors_.function() + code_.text();
  }

 private:
  int64_t apart() const { return point_.width * point_.items; }  // an item's vectors
  std::string over_vectors() const {
    return fmt::format("UNROLL for (int v = 0; v < {}; ++v)", point_.vectors);
  }
  void open_rows() { code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", point_.rows)); }

  // A vector at the end is moved inside the run, too.
  void declare() {
    code_.line(fmt::format("int at[{}];", point_.vectors));
    code_.line(fmt::format("{} sums[{}][{}];", vectors_.type(), point_.rows, point_.vectors));
    code_.open(over_vectors());
    code_.line(fmt::format("at[v] = MIN(first + {}, {});", times("v", apart()), span_ - point_.width));
    code_.line(
        fmt::format("UNROLL for (int r = 0; r < {}; ++r) sums[r][v] = {};", point_.rows, vectors_.zero()));
    code_.close();
  }

  std::string tap_at() const {
    const auto offset = [](const char* tap, int64_t apart, int64_t first) {
      return plus(times(tap, apart), first);
    };
    return shifted(offset("y", data_.tap.height, data_.first.height - runs_.rows.low), data_.step.height,
                   data_.step.width * runs_.lines * runs_.line, runs_.line) +
           " + " +
           shifted(offset("x", data_.tap.width, data_.first.width - runs_.columns.low), data_.step.width,
                   runs_.lines * runs_.line, 1);
  }

  void multiply() {
    code_.open(fmt::format("for (int c = 0; c < {}; ++c)", data_.channels_in));
    code_.open(fmt::format("for (int y = 0; y < {}; ++y)", data_.taps.height));
    code_.open(fmt::format("UNROLL for (int x = 0; x < {}; ++x)", data_.taps.width));
    code_.line(fmt::format("{} pixels[{}];", vectors_.type(), point_.vectors));
    code_.line(
        fmt::format("{} pixels[v] = {};", over_vectors(),
                    vectors_.load("from", fmt::format("c * {} + {} + at[v]", runs_.channel, tap_at()))));
    open_rows();
    code_.line(fmt::format("const f32 weight = LOAD({}, w, r * {} + c * {} + y * {} + x * {});",
                           language_name(p_.dtype), data_.weight_m, data_.weight_c, data_.weight_tap.height,
                           data_.weight_tap.width));
    code_.line(fmt::format("{} sums[r][v] = {};", over_vectors(),
                           vectors_.multiply_add("weight", "pixels[v]", "sums[r][v]")));
    for (int loop = 0; loop < 4; ++loop) code_.close();
  }

  // Tiles that were moved inside store only their own part.
  void store() {
    const int64_t plane = data_.strides[1];
    const int64_t row = data_.out_step.height * data_.strides[2], column = data_.out_step.width;
    const int64_t first = p_.epilogue.first_place(p_.c.start / static_cast<int64_t>(size_of(p_.dtype)));
    const auto finished = [&](const std::string& place) {
      return p_.epilogue.call("lanes[i]", plus(place, first), "row", "0");
    };
    open_rows();
    code_.line("const int row = m0 + r;");
    if (p_.m % point_.rows != 0) code_.line(fmt::format("if (row < row_tile * {}) continue;", point_.rows));
    code_.line(fmt::format("const int line = image * {} + (batch * {} + row) * {};", data_.out[1] * plane,
                           p_.m, plane));
    code_.line(fmt::format("GLOBAL {} *const to = results + line;", stored(p_.dtype)));
    code_.open(over_vectors());
    code_.line(fmt::format("const int own = first + {};", times("v", apart())));
    code_.line(fmt::format("f32 lanes[{}];", point_.width));
    code_.line(fmt::format("VSTORE({}, lanes, 0, sums[r][v]);", point_.width));
    const bool no_gaps = runs_.line == data_.out[3] && row == data_.out[3] && column == 1;
    if (p_.dtype == DType::f32 && no_gaps) {
      code_.open("if (at[v] == own)");
      code_.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) lanes[i] = {};", point_.width,
                             finished("line + own + i")));
      code_.line(fmt::format("VSTORE({0}, to, own, VLOAD({0}, lanes, 0));", point_.width));
      code_.line("continue;");
      code_.close();
    }
    code_.line(fmt::format("int y = at[v] / {0}, x = at[v] % {0};", runs_.line));
    code_.open(fmt::format("for (int i = 0; i < {}; ++i)", point_.width));
    code_.open(fmt::format("if (x < {} && at[v] + i >= own)", data_.out[3]));
    code_.line(fmt::format("const int place = {} + {};", times("y", row), times("x", column)));
    code_.line(fmt::format("STORE({}, to, place, {});", language_name(p_.dtype), finished("line + place")));
    code_.close();
    code_.line(fmt::format("if (++x == {}) x = 0, ++y;", runs_.line));
    for (int block = 0; block < 3; ++block) code_.close();
  }

  Code code_;
  const GemmProblem& p_;
  const ConvData& data_;
  const PixelRuns& runs_;
  const ShiftedPoint& point_;
  int64_t each_, span_;
  GemmVectors vectors_;
};

}  // namespace

std::string shifted_kernel(const GemmProblem& problem, const std::vector<Parameter>& parameters,
                           const ConvData& data, const PixelRuns& runs, const ShiftedPoint& point,
                           int64_t each) {
  return ShiftedKernel(problem, data, runs, point, each).text(parameters);
}

void open_tiles(Code& code, int64_t each, int64_t all) {
  if (each == 1) return code.line("int tile = GROUP_ID(0);");
  code.open(
      fmt::format("for (int each = 0; each < {0} && GROUP_ID(0) * {0} + each < {1}; ++each)", each, all));
  code.line(fmt::format("int tile = GROUP_ID(0) * {} + each;", each));
}

void close_tiles(Code& code, int64_t each) {
  if (each > 1) code.close();
}

void take_of_tile(Code& code, const std::string& name, int64_t count) {
  if (count == 1) return code.line(fmt::format("const int {} = 0;", name));
  code.line(fmt::format("const int {} = tile % {};", name, count));
  code.line(fmt::format("tile /= {};", count));
}

void find_rows(Code& code, int64_t m, int64_t rows) {
  const std::string first = times("row_tile", rows);
  code.line(
      fmt::format("const int m0 = {};", m % rows == 0 ? first : fmt::format("MIN({}, {})", first, m - rows)));
}

std::string shifted(const std::string& offset, int64_t step, int64_t phase, int64_t line) {
  if (step == 1) return times("(" + offset + ")", line);
  return fmt::format("({0}) % {1} * {2} + {3}", offset, step, phase,
                     times(fmt::format("({}) / {}", offset, step), line));
}

}  // namespace athanor::gpu
