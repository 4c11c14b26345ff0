// Writes the kernel that transforms the products of Winograd's convolutions back to their results.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {
namespace {

class OutputKernel {
 public:
  OutputKernel(const WinogradTiles& tiles, const GemmProblem& problem, int64_t first_result,
               bool channels_last, int64_t lanes, int64_t chunks)
      : t_(tiles),
        p_(problem),
        wide_(has_wide_index(problem)),
        first_(first_result),
        lanes_(lanes),
        chunks_(chunks),
        runs_(tiles, lanes),
        order_{tiles.count, problem.m, channels_last} {}

  std::string text(const std::vector<Parameter>& parameters) {
    open_kernel(code_, "winograd_output", parameters, false);
    if (!p_.epilogue.empty()) code_.line("const int batch = 0;");
    open_chunks(code_, order_, lanes_, chunks_);
    load();
    write_patch_transforms(code_, winograd_transforms(t_.outputs).results, t_.patch, t_.outputs, t_.patch,
                           lanes_, "UNROLL for");
    if (lanes_ == 1)
      store_tile();
    else
      store_tiles();
    code_.close();
    code_.close();
    return p_.epilogue.function() + code_.text();
  }

 private:
  void load() {
    const std::string apart = strided("p", p_.m * t_.count, wide_);
    code_.line(fmt::format("GLOBAL const f32 *const from = products + ({} + {});",
                           strided("channel", order_.of_channel(), wide_),
                           strided("first", order_.of_tile(), wide_)));
    code_.line(fmt::format("{} points[{}];", lanes_type(lanes_), t_.points));
    const bool past = t_.count % lanes_ != 0;
    if (past) code_.open(fmt::format("if (first + {} <= {})", lanes_, t_.count));
    code_.line(fmt::format("UNROLL for (int p = 0; p < {}; ++p) points[p] = {};", t_.points,
                           load_lanes(lanes_, "from", apart)));
    if (!past) return;
    code_.close();
    code_.open("else");
    code_.open(fmt::format("for (int p = 0; p < {}; ++p)", t_.points));
    code_.line(fmt::format("f32 lanes[{}];", lanes_));
    code_.line(fmt::format("for (int i = 0; i < {}; ++i) lanes[i] = first + i < {} ? from[{} + i] : 0;",
                           lanes_, t_.count, apart));
    code_.line(fmt::format("points[p] = VLOAD({}, lanes, 0);", lanes_));
    code_.close();
    code_.close();
  }

  /// Where the tiles from `tile` on lie: `top`, `left`, and the place of the first element, `at`.
  void find(const std::string& tile) {
    code_.line(fmt::format("const int top = {}, left = {};", times(t_.row_of(tile), t_.outputs),
                           times(fmt::format("{} % {}", tile, t_.of_row), t_.outputs)));
    const std::string wide = wide_ ? "(i64)" : "";
    const std::string image = t_.image_of(tile, fmt::format("{}{}", wide, p_.m));
    if (order_.channels_last) {
      const std::string rows = t_.image_of(tile, fmt::format("{}{}", wide, t_.rows));
      code_.line(fmt::format("const {} at = ({} + left) * {} + channel;", index_type(p_),
                             strided(plus("top", rows), t_.columns, wide_), p_.m));
      return;
    }
    code_.line(fmt::format("const {} at = {} + {} + left;", index_type(p_),
                           strided(plus("channel", image), t_.rows * t_.columns, wide_),
                           times("top", t_.columns)));
  }
  /// From one pixel of the result to the next.
  int64_t of_pixel() const { return order_.channels_last ? p_.m : 1; }
  bool past_rows() const { return t_.rows % t_.outputs != 0; }
  bool past_columns() const { return t_.columns % t_.outputs != 0; }
  std::string store(const std::string& x) const {
    const std::string place =
        fmt::format("at + i * {} + {}", t_.columns * of_pixel(), times("j", of_pixel()));
    return fmt::format("STORE({}, y, {}, {});", language_name(p_.dtype), place,
                       p_.epilogue.call(x, plus(place, first_), "channel", "0"));
  }

  // Registers have no addresses: a loop of unknown length would put them into memory.
  void store_tile() {
    find("first");
    if (past_columns())
      code_.line(fmt::format("const int count = MIN({}, {} - left);", t_.outputs, t_.columns));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", t_.outputs));
    if (past_rows()) code_.open(fmt::format("if (top + i < {})", t_.rows));
    code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", t_.outputs));
    code_.line((past_columns() ? "if (j < count) " : "") +
               store(fmt::format("points[i * {} + j]", t_.patch)));
    code_.close();
    if (past_rows()) code_.close();
    code_.close();
  }

  void store_tiles() {
    code_.line(fmt::format("f32 rows[{}][{}];", t_.outputs, lanes_ * t_.outputs));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", t_.outputs));
    write_pixels();
    code_.close();
    code_.open(fmt::format("for (int run = 0; run < {}{}; ++run)", runs_.count,
                           t_.count % lanes_ == 0
                               ? ""
                               : fmt::format(" && first + {} < {}", times("run", runs_.tiles), t_.count)));
    code_.line(fmt::format("const int tile = first + {};", times("run", runs_.tiles)));
    find("tile");
    const std::string count = runs_.tiles == t_.of_row ? fmt::format("{}", t_.columns)
                              : past_columns() ? fmt::format("MIN({}, {} - left)", runs_.pixels, t_.columns)
                                               : fmt::format("{}", runs_.pixels);
    code_.line(fmt::format("const int count = {};", count));
    code_.open(fmt::format("for (int i = 0; i < {}; ++i)", t_.outputs));
    if (past_rows()) code_.open(fmt::format("if (top + i < {})", t_.rows));
    code_.line("for (int j = 0; j < count; ++j) " +
               store(fmt::format("rows[i][run * {} + j]", runs_.pixels)));
    if (past_rows()) code_.close();
    code_.close();
    code_.close();
  }

  /// Turns a row of tiles' columns into vectors of neighbouring pixels.
  void write_pixels() {
    const std::string type = lanes_type(lanes_);
    const auto zip = [&](const char* half, const std::string& a, const std::string& b) {
      return fmt::format("ZIP_{}({}, {}, {})", half, lanes_, a, b);
    };
    const auto column = [&](int64_t j) { return fmt::format("points[i * {} + {}]", t_.patch, j); };
    const auto pixels = [&](int64_t v, const std::string& x) {
      code_.line(fmt::format("VSTORE({}, rows[i], {}, {});", lanes_, v * lanes_, x));
    };
    if (t_.outputs == 2) {
      pixels(0, zip("LOW", column(0), column(1)));
      pixels(1, zip("HIGH", column(0), column(1)));
      return;
    }
    for (const int64_t j : {0, 1})
      code_.line(fmt::format("const {0} low{1} = {2}, high{1} = {3};", type, j,
                             zip("LOW", column(j), column(j + 2)), zip("HIGH", column(j), column(j + 2))));
    pixels(0, zip("LOW", "low0", "low1"));
    pixels(1, zip("HIGH", "low0", "low1"));
    pixels(2, zip("LOW", "high0", "high1"));
    pixels(3, zip("HIGH", "high0", "high1"));
  }

  Code code_;
  const WinogradTiles& t_;
  const GemmProblem& p_;
  bool wide_;
  int64_t first_, lanes_, chunks_;
  WinogradRuns runs_;
  WinogradOrder order_;
};

}  // namespace

std::string winograd_output(const WinogradTiles& tiles, const GemmProblem& problem,
                            const std::vector<Parameter>& parameters, int64_t first_result,
                            bool channels_last, int64_t lanes, int64_t chunks) {
  return OutputKernel(tiles, problem, first_result, channels_last, lanes, chunks).text(parameters);
}

}  // namespace athanor::gpu
