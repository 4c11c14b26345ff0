// Pooling where every element of the image lies in exactly one window.
#include <fmt/format.h>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/pool_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// Rows are first copied to arrays. The rest is then long loops over arrays, which compilers for CPUs
/// vectorise; they would not vectorise loops over the short rows of a pooled image.
class PoolWindows : PoolKernel {
 public:
  PoolWindows(const PoolProblem& problem, int64_t rows, int64_t columns)
      : PoolKernel(problem), rows_(rows), columns_(columns) {}

  std::string text() {
    const int64_t across = p_.out[1] / columns_;
    begin("pool_windows");
    code_.line("const i64 item = GLOBAL_ID(0);");
    code_.line(fmt::format("if (item >= {}) return;", p_.planes * p_.out[0] * p_.out[1] / windows()));
    code_.line(fmt::format("const i64 first_row = {};", times(divided("item", across), rows_)));
    code_.line(fmt::format("const int column = {};",
                           across == 1 ? "0" : times(fmt::format("(int)(item % {})", across), columns_)));
    if (!p_.gradient || p_.max) find_results();
    if (p_.gradient)
      store_gradients();
    else
      store_results();
    code_.close();
    return code_.text();
  }

 private:
  int64_t windows() const { return rows_ * columns_; }
  int64_t span() const { return columns_ * p_.kernel[1]; }
  std::string each_window() const { return fmt::format("for (int e = 0; e < {}; ++e)", windows()); }
  std::string each_row() const { return fmt::format("for (int r = 0; r < {}; ++r)", rows_); }
  std::string tap(const char* j) const { return fmt::format("e * {} + {}", p_.kernel[1], j); }
  std::string tap_number() const { return fmt::format("i * {} + j", p_.kernel[1]); }

  void open_row(const char* from, const Ints& strides, const std::string& row, const std::string& column) {
    code_.open(each_row());
    code_.line(fmt::format("const i64 row = first_row + r, plane = row / {};", p_.out[0]));
    code_.line(fmt::format("GLOBAL const {} *const from = {} + ({});", type(), from,
                           sum({plane_start(strides), scaled(row, strides[2]), scaled(column, strides[3])})));
  }

  void find_results() {
    code_.line(fmt::format("{} results[{}];", number(), windows()));
    if (p_.max) code_.line(fmt::format("int best_at[{}];", windows()));
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", p_.kernel[0]));
    code_.line(fmt::format("{} values[{}];", number(), rows_ * span()));
    open_row("x", p_.x, fmt::format("row % {} * {} + i", p_.out[0], p_.kernel[0]),
             times("column", p_.kernel[1]));
    code_.line(fmt::format("for (int w = 0; w < {0}; ++w) values[r * {0} + w] = {1};", span(),
                           load("from", scaled("w", p_.x[3]))));
    code_.close();
    code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", p_.kernel[1]));
    code_.open(each_window());
    code_.line(fmt::format("const {} value = values[{}];", number(), tap("j")));
    if (p_.max) {
      code_.line(fmt::format("const int takes = i + j == 0 || {};", takes_max("value", "results[e]")));
      code_.line("results[e] = takes ? value : results[e];");
      if (p_.gradient) code_.line(fmt::format("best_at[e] = takes ? {} : best_at[e];", tap_number()));
    } else {
      code_.line("results[e] = i + j == 0 ? value : results[e] + value;");
    }
    code_.close();
    code_.close();
    code_.close();
  }

  void store_results() {
    code_.line(
        fmt::format("GLOBAL {} *const to = y + ({} + column);", type(), times("first_row", p_.out[1])));
    code_.line(fmt::format("{} STORE({}, to, e, {});", each_window(), language_name(p_.dtype),
                           p_.max ? "results[e]" : fmt::format("results[e] / {}", p_.window())));
  }

  void store_gradients() {
    code_.line(fmt::format("{} shares[{}];", number(), windows()));
    open_row("dy", p_.dy, fmt::format("row % {}", p_.out[0]), "column");
    code_.line(fmt::format("for (int w = 0; w < {0}; ++w) shares[r * {0} + w] = {1};", columns_,
                           load("from", scaled("w", p_.dy[3]))));
    code_.close();
    code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", p_.kernel[0]));
    code_.line(fmt::format("{} values[{}];", number(), rows_ * span()));
    code_.open(each_window());
    code_.line(fmt::format("UNROLL for (int j = 0; j < {}; ++j) values[{}] = {};", p_.kernel[1], tap("j"),
                           p_.max ? fmt::format("best_at[e] == {} ? shares[e] : 0", tap_number())
                                  : fmt::format("shares[e] / {}", p_.window())));
    code_.close();
    code_.open(each_row());
    code_.line(fmt::format("GLOBAL {} *const to = dx + (((first_row + r) * {} + i) * (i64){} + {});", type(),
                           p_.kernel[0], p_.image[1], times("column", p_.kernel[1])));
    code_.line(fmt::format("for (int w = 0; w < {0}; ++w) STORE({1}, to, w, values[r * {0} + w]);", span(),
                           language_name(p_.dtype)));
    code_.close();
    code_.close();
  }

  int64_t rows_, columns_;
};

}  // namespace

std::string pool_windows_kernel(const PoolProblem& problem, int64_t rows, int64_t columns) {
  return PoolWindows(problem, rows, columns).text();
}

}  // namespace athanor::gpu
