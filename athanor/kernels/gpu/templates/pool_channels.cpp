// Pooling of images with channels last: an item computes 16 bytes of channels of a pixel, or of the pixels
// that lie in the same windows.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/pool_kernel.h"

namespace athanor::gpu {
namespace {

class PoolChannels : PoolKernel {
 public:
  explicit PoolChannels(const PoolProblem& problem) : PoolKernel(problem) {}

  std::string forward() {
    write_divisor();
    begin_vectors("pool_channels");
    open_pixels(p_.out[0], p_.out[1]);
    code_.line(fmt::format("const int top = {}, left = {};", top("y_row"), left("y_column")));
    code_.line(fmt::format("f32 results[{}];", lanes()));
    code_.line(fmt::format("{} results[e] = {};", each_lane(), p_.max ? "-1.0f / 0.0f" : "0"));
    open_taps();
    if (p_.padded) code_.open(fmt::format("if ({})", inside("top + i", "left + j")));
    read("x", "x_image", "top + i", "left + j", p_.x);
    code_.line(p_.max ? fmt::format("{} results[e] = {} ? values[e] : results[e];", each_lane(),
                                    takes_max("values[e]", "results[e]"))
                      : each_lane() + " results[e] += values[e];");
    if (p_.padded) code_.close();
    close_window();
    if (!p_.max) code_.line(each_lane() + " results[e] /= divisor(top, left);");
    write("results", "to + (i64)vector * 16");
    code_.close();
    code_.close();
    return code_.text();
  }

  std::string gradient() {
    const PoolBlock h(1, p_.kernel[0], p_.stride[0], p_.padding[0]),
        w(1, p_.kernel[1], p_.stride[1], p_.padding[1]);
    if (!p_.max) write_divisor();
    begin_vectors("pool_grad_channels");
    open_pixels(ceil_div(p_.image[0], h.elements), ceil_div(p_.image[1], w.elements));
    // The first window that reaches the block.
    code_.line(fmt::format("const int first_row = {}, first_column = {};",
                           plus("y_row", (p_.padding[0] - h.offset) / p_.stride[0]),
                           plus("y_column", (p_.padding[1] - w.offset) / p_.stride[1])));
    code_.line(fmt::format("f32 results[{}][{}][{}];", h.elements, w.elements, lanes()));
    open_block(h, w);
    code_.line(each_lane() + " results[y][z][e] = 0;");
    close_window();
    code_.line("// The last window first, as pool_grad adds them.");
    code_.open(fmt::format("_Pragma(\"unroll 1\") for (int r = {}; r >= 0; --r)", h.windows - 1));
    code_.open(fmt::format("_Pragma(\"unroll 1\") for (int c = {}; c >= 0; --c)", w.windows - 1));
    code_.open(
        fmt::format("if ((u32)(first_row + r) < {} && (u32)(first_column + c) < {})", p_.out[0], p_.out[1]));
    add_window(h, w);
    code_.close();
    close_window();
    store_block(h, w);
    code_.close();
    code_.close();
    return code_.text();
  }

 private:
  int64_t lanes() const { return 16 / static_cast<int64_t>(size_of(p_.dtype)); }
  std::string each_lane() const { return fmt::format("UNROLL for (int e = 0; e < {}; ++e)", lanes()); }

  void begin_vectors(const char* name) {
    std::vector<Parameter> parameters;
    if (!p_.gradient || p_.max) parameters.push_back({"x", "const u8"});
    if (p_.gradient) parameters.push_back({"dy", "const u8"});
    parameters.push_back({"to", "u8"});
    open_kernel(code_, name, parameters, false);
  }

  /// For each item: y_row, y_column and the images' places in bytes, with its channels. There are rows x
  /// columns items of an image, for each vector of channels.
  void open_pixels(int64_t rows, int64_t columns) {
    const int64_t vectors = p_.channels / lanes(), images = p_.planes / p_.channels;
    code_.line("const int vector = GLOBAL_ID(0);");
    code_.open(fmt::format("if (vector < {})", images * rows * columns * vectors));
    code_.line(fmt::format("const int pixel = vector / {}, row = pixel / {};", vectors, columns));
    code_.line(fmt::format("const int y_row = row % {}, y_column = pixel % {};", rows, columns));
    const auto image = [&](const char* name, int64_t stride) {
      code_.line(fmt::format("const u32 {} = (u32)(row / {}) * {}u + (u32)(vector % {}) * 16u;", name, rows,
                             stride * size(), vectors));
    };
    if (!p_.gradient || p_.max) image("x_image", p_.x[0]);
    if (p_.gradient) image("dy_image", p_.dy[0]);
  }
  int64_t size() const { return static_cast<int64_t>(size_of(p_.dtype)); }

  void open_taps() {
    constexpr int64_t most_unrolled = 8;
    code_.open(fmt::format("_Pragma(\"unroll 1\") for (int i = 0; i < {}; ++i)", p_.kernel[0]));
    code_.open(fmt::format("{} for (int j = 0; j < {}; ++j)",
                           p_.kernel[1] <= most_unrolled ? "UNROLL" : "_Pragma(\"unroll 1\")", p_.kernel[1]));
  }
  void open_block(const PoolBlock& h, const PoolBlock& w) {
    code_.open(fmt::format("UNROLL for (int y = 0; y < {}; ++y)", h.elements));
    code_.open(fmt::format("UNROLL for (int z = 0; z < {}; ++z)", w.elements));
  }

  /// Declares values[e], the channels of a pixel.
  void read(const char* from, const char* image, const std::string& row, const std::string& column,
            const Ints& strides) {
    code_.line("u32x4 held;");
    code_.line(fmt::format("u32 at = {} + (u32)({}) * {}u + (u32)({}) * {}u;", image, row,
                           strides[2] * size(), column, strides[3] * size()));
    code_.line(fmt::format("READ_GLOBAL(4, held, 0, {}, at);", from));
    code_.line(fmt::format("f32 values[{}];", lanes()));
    code_.line(
        fmt::format("{} values[e] = F32_OF_BITS({});", each_lane(),
                    size() == 4 ? "held[e]" : fmt::format("WIDENED({}, held, e)", language_name(p_.dtype))));
  }

  void write(const std::string& results, const std::string& to) {
    for (int64_t e = 0; e < lanes(); ++e)
      code_.line(fmt::format("const f32 ready{0} = {1}[{0}];", e, results));
    pack_ready(code_, p_.dtype, lanes());
    code_.line(fmt::format("WRITE_GLOBAL(4, {}, ready);", to));
  }

  void add_window(const PoolBlock& h, const PoolBlock& w) {
    code_.line(
        fmt::format("const int top = {}, left = {};", top("(first_row + r)"), left("(first_column + c)")));
    if (p_.max) find_largest();
    read("dy", "dy_image", "first_row + r", "first_column + c", p_.dy);
    if (!p_.max) code_.line(each_lane() + " values[e] /= divisor(top, left);");
    open_block(h, w);
    code_.line(fmt::format("const int i = y + {} - {}, j = z + {} - {};  // in the window", h.offset,
                           times("r", p_.stride[0]), w.offset, times("c", p_.stride[1])));
    code_.open(fmt::format("if (i >= 0 && i < {} && j >= 0 && j < {})", p_.kernel[0], p_.kernel[1]));
    code_.line(p_.max ? fmt::format("{} results[y][z][e] += best_at[e] == i * {} + j ? values[e] : 0;",
                                    each_lane(), p_.kernel[1])
                      : each_lane() + " results[y][z][e] += values[e];");
    code_.close();
    close_window();
  }

  void find_largest() {
    code_.line(fmt::format("f32 best[{}];", lanes()));
    code_.line(fmt::format("int best_at[{}];", lanes()));
    code_.line(each_lane() + " best[e] = 0, best_at[e] = -1;");
    open_taps();
    if (p_.padded) code_.open(fmt::format("if ({})", inside("top + i", "left + j")));
    read("x", "x_image", "top + i", "left + j", p_.x);
    code_.open(each_lane());
    code_.line(fmt::format("const int takes = best_at[e] < 0 || {};", takes_max("values[e]", "best[e]")));
    code_.line("best[e] = takes ? values[e] : best[e];");
    code_.line(fmt::format("best_at[e] = takes ? i * {} + j : best_at[e];", p_.kernel[1]));
    code_.close();
    if (p_.padded) code_.close();
    close_window();
  }

  void store_block(const PoolBlock& h, const PoolBlock& w) {
    const int64_t vectors = p_.channels / lanes();
    const bool whole = p_.image[0] % h.elements == 0 && p_.image[1] % w.elements == 0;
    const int64_t rows = ceil_div(p_.image[0], h.elements);
    for (int64_t y = 0; y < h.elements; ++y)
      for (int64_t z = 0; z < w.elements; ++z) {
        const std::string at_row = plus(times("y_row", h.elements), y),
                          at_column = plus(times("y_column", w.elements), z);
        code_.open(
            whole ? "" : fmt::format("if ({} < {} && {} < {})", at_row, p_.image[0], at_column, p_.image[1]));
        write(fmt::format("results[{}][{}]", y, z),
              fmt::format("to + ((((i64)row / {} * {} + {}) * {} + {}) * {} + vector % {}) * 16", rows,
                          p_.image[0], at_row, p_.image[1], at_column, vectors, vectors));
        code_.close();
      }
  }
};

}  // namespace

int64_t pool_channels_items(const PoolProblem& p) {
  const int64_t vectors = p.planes * static_cast<int64_t>(size_of(p.dtype)) / 16;
  if (!p.gradient) return vectors * p.out[0] * p.out[1];
  return vectors * ceil_div(p.image[0], p.stride[0]) * ceil_div(p.image[1], p.stride[1]);
}

std::string pool_channels_kernel(const PoolProblem& problem) {
  PoolChannels kernel(problem);
  return problem.gradient ? kernel.gradient() : kernel.forward();
}

}  // namespace athanor::gpu
