// Gradients of pooling where windows overlap. An item computes a block of an image, whose elements lie in the
// same windows: it reads their elements once, and finds the largest element of each window once.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/pool_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

PoolBlock::PoolBlock(int64_t strides, int64_t kernel, int64_t stride, int64_t padding)
    : elements(strides * stride) {
  // The first window that reaches the block which begins at 0.
  const int64_t first = -((kernel - 1 - padding) / stride);
  windows = (elements - 1 + padding) / stride - first + 1;
  offset = padding - first * stride;
  patch = (windows - 1) * stride + kernel;
}

namespace {

class PoolBlocks : PoolKernel {
 public:
  PoolBlocks(const PoolProblem& problem, const PoolBlock& h, const PoolBlock& w, bool wide,
             int64_t row_registers)
      : PoolKernel(problem), h_(h), w_(w), wide_(wide), row_registers_(row_registers) {}

  std::string text() {
    if (!p_.max) write_divisor();
    begin("pool_grad_blocks");
    find_block();
    if (p_.max) load_patch();
    code_.line(fmt::format("{} results[{}][{}];", number(), h_.elements, w_.elements));
    open_block();
    code_.line("results[y][z] = 0;");
    close_window();
    code_.line("// The last window first, as pool_grad adds them.");
    code_.open(fmt::format("UNROLL for (int r = {}; r >= 0; --r)", h_.windows - 1));
    code_.open(fmt::format("UNROLL for (int c = {}; c >= 0; --c)", w_.windows - 1));
    add_window();
    close_window();
    store();
    code_.close();
    return code_.text();
  }

 private:
  // The first row and column of window (r, c), counted from the first window's.
  std::string window_row() const { return times("r", p_.stride[0]); }
  std::string window_column() const { return times("c", p_.stride[1]); }

  void open_block() {
    code_.open(fmt::format("UNROLL for (int y = 0; y < {}; ++y)", h_.elements));
    code_.open(fmt::format("UNROLL for (int z = 0; z < {}; ++z)", w_.elements));
  }

  void find_block() {
    const int64_t down = ceil_div(p_.image[0], h_.elements), across = ceil_div(p_.image[1], w_.elements);
    const char* item = wide_ ? "i64" : "i32";
    code_.line(fmt::format("const {0} item = ({0})GLOBAL_ID(0);", item));
    code_.line(fmt::format("if (item >= {}) return;", p_.planes * down * across));
    code_.line(fmt::format("const int h = {}, w = {};",
                           times(fmt::format("(int)(item / {} % {})", across, down), h_.elements),
                           times(fmt::format("(int)(item % {})", across), w_.elements)));
    code_.line(fmt::format("const {} plane = item / {};", item, down * across));
    code_.line(fmt::format("const int top = {}, left = {};", plus("h", -h_.offset), plus("w", -w_.offset)));
    const auto window = [](const char* first, int64_t padding, int64_t stride) {
      return divided(padding == 0 ? std::string(first) : fmt::format("({} + {})", first, padding), stride);
    };
    code_.line(fmt::format("const int first_row = {}, first_column = {};  // exactly",
                           window("top", p_.padding[0], p_.stride[0]),
                           window("left", p_.padding[1], p_.stride[1])));
    code_.line(fmt::format(
        "GLOBAL const {} *const gradients = dy + ({});", type(),
        sum({plane_start(p_.dy), scaled("first_row", p_.dy[2]), scaled("first_column", p_.dy[3])})));
  }

  void load_patch() {
    code_.line(fmt::format("GLOBAL const {} *const from = x + ({});", type(),
                           sum({plane_start(p_.x), scaled("top", p_.x[2]), scaled("left", p_.x[3])})));
    code_.line(fmt::format("{} patch[{}][{}];", number(), h_.patch, w_.patch));
    open_window(h_.patch, w_.patch);
    // Blocks reach past the image even if it is not padded.
    code_.line(fmt::format("const int inside = {};", inside("top + i", "left + j")));
    code_.line(fmt::format("patch[i][j] = inside ? {} : 0;",
                           load("from", sum({scaled("i", p_.x[2]), scaled("j", p_.x[3])}))));
    close_window();
  }

  void add_window() {
    code_.line(fmt::format("const int exists = (u32)(first_row + r) < {} && (u32)(first_column + c) < {};",
                           p_.out[0], p_.out[1]));
    code_.line(fmt::format("const {} gradient = exists ? {} : 0;", number(),
                           load("gradients", sum({scaled("r", p_.dy[2]), scaled("c", p_.dy[3])}))));
    if (p_.max)
      find_largest();
    else
      code_.line(fmt::format("const {} share = exists ? gradient / divisor(top + {}, left + {}) : 0;",
                             number(), window_row(), window_column()));
    open_block();
    code_.line(fmt::format("const int i = y + {} - {}, j = z + {} - {};  // in the window", h_.offset,
                           window_row(), w_.offset, window_column()));
    code_.open(fmt::format("if (i >= 0 && i < {} && j >= 0 && j < {})", p_.kernel[0], p_.kernel[1]));
    code_.line(
        p_.max ? fmt::format("results[y][z] += exists && best_at == i * {} + j ? gradient : 0;", p_.kernel[1])
               : std::string("results[y][z] += share;"));
    code_.close();
    close_window();
  }

  void find_largest() {
    code_.line(fmt::format("{} best = 0;", number()));
    code_.line("int best_at = -1;");
    open_window(p_.kernel[0], p_.kernel[1]);
    const std::string row = window_row() + " + i", column = window_column() + " + j";
    code_.line(fmt::format("const {} value = patch[{}][{}];", number(), row, column));
    const std::string takes = fmt::format("(best_at < 0 || {})", takes_max("value", "best"));
    code_.line(fmt::format("const int takes = {};",
                           p_.padded ? inside("top + " + row, "left + " + column) + " && " + takes : takes));
    code_.line("best = takes ? value : best;");
    code_.line(fmt::format("best_at = takes ? i * {} + j : best_at;", p_.kernel[1]));
    close_window();
  }

  void store() {
    const std::string_view dtype = language_name(p_.dtype);
    code_.line(fmt::format("GLOBAL {} *const to = dx + (((i64)plane * {} + h) * {} + w);", type(),
                           p_.image[0], p_.image[1]));
    code_.open(fmt::format("UNROLL for (int y = 0; y < {}; ++y)", h_.elements));
    if (p_.image[0] % h_.elements != 0) code_.line(fmt::format("if (h + y >= {}) break;", p_.image[0]));
    const std::string each = fmt::format("UNROLL for (int z = 0; z < {}; ++z) ", w_.elements);
    if (row_registers_ > 0) {
      const bool one = row_registers_ == 1;
      code_.line(one ? "u32 together[1];" : fmt::format("u32x{} together;", row_registers_));
      code_.line(each + fmt::format("SET_ELEMENT({}, together, z, results[y][z]);", dtype));
      code_.line(fmt::format("WRITE_GLOBAL({}, to + y * {}, {});", row_registers_, p_.image[1],
                             one ? "together[0]" : "together"));
    } else {
      code_.line(each + fmt::format("{}STORE({}, to, y * {} + z, results[y][z]);",
                                    p_.image[1] % w_.elements == 0
                                        ? ""
                                        : fmt::format("if (w + z < {}) ", p_.image[1]),
                                    dtype, p_.image[1]));
    }
    code_.close();
  }

  PoolBlock h_, w_;
  bool wide_;
  int64_t row_registers_;
};

}  // namespace

std::string pool_blocks_kernel(const PoolProblem& problem, const PoolBlock& h, const PoolBlock& w, bool wide,
                               int64_t row_registers) {
  return PoolBlocks(problem, h, w, wide, row_registers).text();
}

}  // namespace athanor::gpu
