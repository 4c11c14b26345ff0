// Writes the kernel that transforms the images of Winograd's convolutions, or the result's gradient.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv_gather.h"
#include "athanor/kernels/gpu/templates/tile_text.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {
namespace {

class InputKernel {
 public:
  InputKernel(const WinogradTiles& tiles, const WinogradInput& input, int64_t lanes, int64_t chunks)
      : t_(tiles),
        input_(input),
        lanes_(lanes),
        chunks_(chunks),
        runs_(tiles, lanes),
        order_{tiles.count, input.channels, input.channels_last},
        each_(each_number(lanes, tiles.outputs)),
        type_(lanes_type(lanes)) {
    int64_t reach = 0;
    for (int axis = 0; axis < input.images.shape.rank(); ++axis)
      reach += (input.images.shape[axis] - 1) * std::abs(input.images.strides[static_cast<size_t>(axis)]);
    index_ = reach < INT32_MAX ? "i32" : "i64";
  }

  std::string text() {
    std::string head;
    if (lanes_ == 1)
      head = image_at_text(input_.images, language_name(input_.dtype), index_, input_.inside);
    else
      write_load_run();
    if (lanes_ > runs_.pixels) write_short_runs();
    open_kernel(code_, "winograd_input", {{"x", "const " + stored(input_.dtype)}, {"transformed", "f32"}},
                false);
    open_chunks(code_, order_, lanes_, chunks_);
    if (lanes_ == 1)
      load_tile();
    else
      load_tiles();
    const auto& transforms = winograd_transforms(t_.outputs);
    write_patch_transforms(code_, input_.gradient ? transforms.gradients : transforms.images, extent(),
                           t_.patch, t_.patch, lanes_, each_);
    store();
    code_.close();
    code_.close();
    return head + code_.text();
  }

 private:
  int64_t extent() const { return input_.gradient ? t_.outputs : t_.patch; }  // of what a tile reads
  /// A patch overlaps the next tile's columns, so a run takes the pixels of one more tile.
  int64_t span() const { return runs_.pixels + (input_.gradient ? 0 : t_.outputs); }
  bool whole_rows() const { return runs_.tiles == t_.of_row; }
  std::string strided(const std::string& number, int axis) const {
    return fmt::format("{} * ({}){}", number, index_, input_.images.strides[static_cast<size_t>(axis)]);
  }
  std::string start(const std::string& tile) const {
    return plus(strided("channel", 1),
                t_.image_of(tile, fmt::format("({}){}", index_, input_.images.strides[0])));
  }
  std::string top(const std::string& tile) const {
    return plus(times(t_.row_of(tile), t_.outputs), input_.first.height);
  }
  std::string left(const std::string& tile) const {
    return plus(times(fmt::format("{} % {}", tile, t_.of_row), t_.outputs), input_.first.width);
  }

  void load_tile() {
    code_.line(fmt::format("const {} start = {};", index_, start("first")));
    code_.line(fmt::format("const int top = {}, left = {};", top("first"), left("first")));
    code_.line(fmt::format("f32 points[{}];", t_.points));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", extent()));
    code_.line(fmt::format(
        "UNROLL for (int j = 0; j < {}; ++j) points[i * {} + j] = image_at(x, start, top + i, left + j);",
        extent(), t_.patch));
    code_.close();
  }

  /// Loads the pixels of a run from column `left` on, with zeros outside the image.
  void write_load_run() {
    const std::string pixel =
        fmt::format("run[j] = LOAD({}, row, {});", language_name(input_.dtype), strided("(left + j)", 3));
    code_.open(
        fmt::format("DEVICE void load_run(f32 *run, GLOBAL const {} *row, int left)", stored(input_.dtype)));
    code_.line(
        fmt::format("const int begin = MIN(MAX(-left, 0), {0}), end = MAX(begin, MIN({1} - left, {0}));",
                    span(), input_.images.shape[3]));
    code_.open(fmt::format("if (begin == 0 && end == {})", span()));
    code_.line(fmt::format("for (int j = 0; j < {}; ++j) {}", span(), pixel));
    code_.close();
    code_.open("else");
    code_.line(fmt::format("for (int j = begin; j < end; ++j) {}", pixel));
    code_.line("for (int j = 0; j < begin; ++j) run[j] = 0;");
    code_.line(fmt::format("for (int j = end; j < {}; ++j) run[j] = 0;", span()));
    code_.close();
    code_.close();
  }

  /// Joins as many runs as fill a vector.
  void write_short_runs() {
    code_.open(fmt::format("DEVICE {} short_runs(const f32 *runs)", type_));
    code_.line(fmt::format("f32 lanes[{}];", lanes_));
    code_.line(
        fmt::format("UNROLL for (int run = 0; run < {0}; ++run) VSTORE({1}, lanes, run * {1}, VLOAD({1}, "
                    "runs, run * {2}));",
                    lanes_ / runs_.pixels, runs_.pixels, span()));
    code_.line(fmt::format("return VLOAD({}, lanes, 0);", lanes_));
    code_.close();
  }

  void load_tiles() {
    code_.line(fmt::format("{} start[{}];", index_, runs_.count));
    code_.line(fmt::format("int top[{0}]{1};", runs_.count,
                           whole_rows() ? "" : fmt::format(", left[{}]", runs_.count)));
    code_.open(fmt::format("for (int run = 0; run < {}; ++run)", runs_.count));
    code_.line(fmt::format("const int tile = MIN(first + {}, {});", times("run", runs_.tiles),
                           t_.count - runs_.tiles));
    code_.line(fmt::format("start[run] = {};", start("tile")));
    code_.line(fmt::format("top[run] = {};", top("tile")));
    if (!whole_rows()) code_.line(fmt::format("left[run] = {};", left("tile")));
    code_.close();
    code_.line(fmt::format("{} points[{}];", type_, t_.points));
    code_.line(
        "// Stores all rows first: a vector that is loaded soon after its parts were stored has to wait for "
        "them.");
    code_.line(fmt::format("f32 rows[{}][{}];", extent(), runs_.count * span()));
    code_.open(fmt::format("for (int i = 0; i < {}; ++i)", extent()));
    code_.open(fmt::format("for (int run = 0; run < {}; ++run)", runs_.count));
    code_.line("const int y = top[run] + i;");
    code_.line(fmt::format("f32 *const to = rows[i] + run * {};", span()));
    // Of whole rows, the same columns are outside the image everywhere.
    const std::string left = whole_rows() ? fmt::format("{}", input_.first.width) : "left[run]";
    code_.open(fmt::format("if ((u32)y < {})", input_.images.shape[2]));
    code_.line(fmt::format("load_run(to, x + (start[run] + {}), {});", strided("y", 2), left));
    code_.close();
    code_.open("else");
    code_.line(fmt::format("for (int j = 0; j < {}; ++j) to[j] = 0;", span()));
    code_.close();
    code_.close();
    code_.close();
    code_.open(fmt::format("{} (int i = 0; i < {}; ++i)", each_, extent()));
    for (int64_t column = 0; column < extent(); column += t_.outputs) take_columns(column);
    code_.close();
  }

  /// Turns as many vectors of neighbouring pixels as a tile has columns into these columns.
  void take_columns(int64_t first) {
    const int64_t count = std::min(t_.outputs, extent() - first);
    for (int64_t v = 0; v < t_.outputs; ++v) {
      const int64_t pixel = v * lanes_;
      const int64_t at = pixel / runs_.pixels * span() + pixel % runs_.pixels + first;
      code_.line(fmt::format("const {} p{} = {};", type_, first + v,
                             lanes_ > runs_.pixels ? fmt::format("short_runs({})", plus("rows[i]", at))
                                                   : fmt::format("VLOAD({}, rows[i], {})", lanes_, at)));
    }
    const auto pick = [&](const char* which, const std::string& a, const std::string& b) {
      return fmt::format("{}({}, {}, {})", which, lanes_, a, b);
    };
    const auto name = [&](char letter, int64_t n) { return fmt::format("{}{}", letter, first + n); };
    const auto column = [&](int64_t j, const std::string& x) {
      if (j < count) code_.line(fmt::format("points[i * {} + {}] = {};", t_.patch, first + j, x));
    };
    if (t_.outputs == 2) {
      column(0, pick("EVENS", name('p', 0), name('p', 1)));
      column(1, pick("ODDS", name('p', 0), name('p', 1)));
      return;
    }
    for (const char* which : {"EVENS", "ODDS"})
      for (const int64_t half : {0, 1})
        code_.line(fmt::format("const {} {} = {};", type_, name(*which == 'E' ? 'e' : 'o', half),
                               pick(which, name('p', 2 * half), name('p', 2 * half + 1))));
    column(0, pick("EVENS", name('e', 0), name('e', 1)));
    column(1, pick("EVENS", name('o', 0), name('o', 1)));
    column(2, pick("ODDS", name('e', 0), name('e', 1)));
    column(3, pick("ODDS", name('o', 0), name('o', 1)));
  }

  void store() {
    const std::string apart = fmt::format("p * ({}){}", index_, input_.channels * t_.count);
    const auto place = [&](const char* of, int64_t stride) {
      return stride == 1 ? of : fmt::format("{} * ({}){}", of, index_, stride);
    };
    code_.line(fmt::format("GLOBAL f32 *const to = transformed + ({} + {});",
                           place("channel", order_.of_channel()), place("first", order_.of_tile())));
    const bool past = t_.count % lanes_ != 0;
    if (past) code_.open(fmt::format("if (first + {} <= {})", lanes_, t_.count));
    code_.line(fmt::format("{} (int p = 0; p < {}; ++p) {}", each_, t_.points,
                           store_lanes(lanes_, "to", apart, "points[p]")));
    if (!past) return;
    code_.close();
    code_.open("else");
    code_.open(fmt::format("for (int p = 0; p < {}; ++p)", t_.points));
    code_.line(fmt::format("f32 lanes[{}];", lanes_));
    code_.line(fmt::format("VSTORE({}, lanes, 0, points[p]);", lanes_));
    code_.line(fmt::format("for (int i = 0; first + i < {}; ++i) to[{} + i] = lanes[i];", t_.count, apart));
    code_.close();
    code_.close();
  }

  Code code_;
  const WinogradTiles& t_;
  const WinogradInput& input_;
  int64_t lanes_, chunks_;
  WinogradRuns runs_;
  WinogradOrder order_;
  const char* each_;
  std::string type_, index_;
};

}  // namespace

std::string winograd_input(const WinogradTiles& tiles, const WinogradInput& input, int64_t lanes,
                           int64_t chunks) {
  return InputKernel(tiles, input, lanes, chunks).text();
}

}  // namespace athanor::gpu
