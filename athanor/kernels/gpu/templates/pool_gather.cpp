// Pooling by items that compute elements one after another, of y or of an image's gradient.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/pool_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

class PoolForward : PoolKernel {
 public:
  PoolForward(const PoolProblem& problem, int64_t run, int64_t runs)
      : PoolKernel(problem), run_(run), runs_(runs) {}

  std::string text() {
    write_divisor();
    begin("pool_forward");
    begin_runs(p_.planes * p_.out[0] * p_.out[1], run_, runs_);
    name_place(p_.out, "row", "first_column");
    code_.line(fmt::format("const i64 start = {};", plane_start(p_.x)));
    code_.line(fmt::format("const int top = {};", top("row")));
    code_.line("// One tap after another, each with a loop over the run that a compiler can vectorise.");
    code_.line(fmt::format("{} results[{}];", number(), run_));
    code_.line(fmt::format("{} results[item] = {};", each_item(), p_.max ? lowest : "0"));
    open_window(p_.kernel[0], p_.kernel[1]);
    add_tap();
    close_window();
    code_.open(each_item());
    if (!p_.max) code_.line(fmt::format("results[item] /= divisor(top, {});", left("(first_column + item)")));
    code_.line(fmt::format("STORE({}, y, first + item, results[item]);", language_name(p_.dtype)));
    code_.close();
    code_.close();
    code_.close();
    return code_.text();
  }

 private:
  static constexpr const char* lowest = "(-1.0f / 0.0f)";  // minus infinity

  std::string each_item() const { return fmt::format("for (int item = 0; item < {}; ++item)", run_); }

  void add_tap() {
    const std::string element =
        load("x", sum({"start", scaled("top + i", p_.x[2]), scaled("left + j", p_.x[3])}));
    code_.open(each_item());
    code_.line(fmt::format("const int left = {};", left("(first_column + item)")));
    if (p_.max) {
      code_.line(
          fmt::format("const {} value = {};", number(), if_inside("top + i", "left + j", element, lowest)));
      code_.line(
          fmt::format("results[item] = {} ? value : results[item];", takes_max("value", "results[item]")));
    } else {
      code_.line(fmt::format("results[item] += {};", if_inside("top + i", "left + j", element, "0")));
    }
    code_.close();
  }

  int64_t run_, runs_;
};

class PoolGrad : PoolKernel {
 public:
  PoolGrad(const PoolProblem& problem, int64_t run, int64_t runs)
      : PoolKernel(problem), run_(run), runs_(runs) {}

  std::string text() {
    if (p_.max)
      write_is_largest();
    else
      write_divisor();
    begin("pool_grad");
    begin_runs(p_.planes * p_.image[0] * p_.image[1], run_, runs_);
    name_place(p_.image, "h", "first_w");
    code_.line(fmt::format("const i64 dy_plane = {};", plane_start(p_.dy)));
    if (p_.max) code_.line(fmt::format("const i64 start = {};", plane_start(p_.x)));
    code_.open(fmt::format("for (int item = 0; item < {}; ++item)", run_));
    code_.line("const int w = first_w + item;");
    code_.line(fmt::format("{} result = 0;", number()));
    open_window(ceil_div(p_.kernel[0], p_.stride[0]), ceil_div(p_.kernel[1], p_.stride[1]));
    add_window();
    close_window();
    code_.line(fmt::format("STORE({}, dx, first + item, result);", language_name(p_.dtype)));
    code_.close();
    code_.close();
    code_.close();
    return code_.text();
  }

 private:
  /// The maximum's gradient goes to the window's first largest element, which is searched again.
  void write_is_largest() {
    code_.open(fmt::format(
        "DEVICE int is_largest(GLOBAL const {} *x, i64 start, int top, int left, int h, int w)", type()));
    code_.line(fmt::format("{} best = 0;", number()));
    code_.line("int best_at = -1;");
    open_window(p_.kernel[0], p_.kernel[1]);
    const std::string element =
        load("x", sum({"start", scaled("top + i", p_.x[2]), scaled("left + j", p_.x[3])}));
    const std::string takes = fmt::format("(best_at < 0 || {})", takes_max("value", "best"));
    if (p_.padded) code_.line(fmt::format("const int inside = {};", inside("top + i", "left + j")));
    code_.line(
        fmt::format("const {} value = {};", number(), p_.padded ? "inside ? " + element + " : 0" : element));
    code_.line(fmt::format("const int takes = {};", p_.padded ? "inside && " + takes : takes));
    code_.line("best = takes ? value : best;");
    code_.line(fmt::format("best_at = takes ? i * {} + j : best_at;", p_.kernel[1]));
    close_window();
    code_.line(fmt::format("return best_at == (h - top) * {} + w - left;", p_.kernel[1]));
    code_.close();
  }

  void add_window() {
    const auto last = [](const char* at, int64_t padding, int64_t stride) {
      return divided(padding == 0 ? std::string(at) : fmt::format("({} + {})", at, padding), stride);
    };
    code_.line(fmt::format("const int row = {} - i, column = {} - j;", last("h", p_.padding[0], p_.stride[0]),
                           last("w", p_.padding[1], p_.stride[1])));
    code_.line(fmt::format("const int top = {}, left = {};", top("row"), left("column")));
    code_.open(fmt::format(
        "if (row >= 0 && row < {} && column >= 0 && column < {} && h < top + {} && w < left + {})", p_.out[0],
        p_.out[1], p_.kernel[0], p_.kernel[1]));
    code_.line(
        fmt::format("const {} gradient = {};", number(),
                    load("dy", sum({"dy_plane", scaled("row", p_.dy[2]), scaled("column", p_.dy[3])}))));
    code_.line(p_.max ? std::string("result += is_largest(x, start, top, left, h, w) ? gradient : 0;")
                      : std::string("result += gradient / divisor(top, left);"));
    code_.close();
  }

  int64_t run_, runs_;
};

}  // namespace

std::string pool_forward_kernel(const PoolProblem& problem, int64_t run, int64_t runs) {
  return PoolForward(problem, run, runs).text();
}

std::string pool_grad_kernel(const PoolProblem& problem, int64_t run, int64_t runs) {
  return PoolGrad(problem, run, runs).text();
}

}  // namespace athanor::gpu
