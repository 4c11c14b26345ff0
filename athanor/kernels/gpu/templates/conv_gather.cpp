#include "athanor/kernels/gpu/templates/conv_gather.h"

#include <fmt/format.h>

#include <numeric>

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {

bool gathers_inside(const OperandDesc& image, Pair taps, const Shape& out, Pair step, Pair first, Pair tap,
                    int64_t tile) {
  const auto inside = [tile](int64_t extent, int64_t results, int64_t by, int64_t start, int64_t apart,
                             int64_t count) {
    const int64_t low = start + std::min<int64_t>(apart * (count - 1), 0);
    const int64_t last = ceil_div(results, tile) * tile - 1;  // of the last tile
    const int64_t high = last * by + start + std::max<int64_t>(apart * (count - 1), 0);
    return low >= 0 && high < extent;
  };
  return inside(image.shape[2], out[2], step.height, first.height, tap.height, taps.height) &&
         inside(image.shape[3], out[3], step.width, first.width, tap.width, taps.width);
}

std::string image_at_text(const OperandDesc& image, std::string_view dtype, std::string_view index,
                          bool inside) {
  Code code;
  code.line("// An element of an image, or 0 outside it.");
  code.open(
      fmt::format("DEVICE COMPUTED({0}) image_at(GLOBAL const STORED({0}) *image, {1} start, int y, int x)",
                  dtype, index));
  if (!inside) {
    code.line(fmt::format("if ((u32)y >= {} || (u32)x >= {}) return 0;", image.shape[2], image.shape[3]));
    code.line("CHECKED_INDEX(y);");
    code.line("CHECKED_INDEX(x);");
  }
  const auto along = [&](const char* number, size_t axis) {
    return strided(number, image.strides[axis], index == "i64");
  };
  code.line(
      fmt::format("return LOAD({}, image, {});", dtype, plus("start", plus(along("y", 2), along("x", 3)))));
  code.close();
  return code.text();
}

std::string Gather::image_text() const {
  return image_at_text(image, language_name(dtype), index(),
                       gathers_inside(image, taps, out, step, first, tap_step));
}

std::string Gather::element_text() const {
  Code code;
  code.open(fmt::format(
      "DEVICE COMPUTED({0}) image_element(GLOBAL const STORED({0}) *b, int all_pixels, int all_taps)",
      language_name(dtype)));
  code.line(fmt::format("const int pixel = {}, tap = {};", remainder("all_pixels", plane()),
                        remainder("all_taps", count())));
  code.line(fmt::format("const int y = {}, x = {};", plus(y_of("pixel"), tap_y("tap")),
                        plus(x_of("pixel"), tap_x("tap"))));
  code.line(fmt::format("return image_at(b, {}, y, x);", start("all_pixels", "all_taps")));
  code.close();
  return image_text() + code.text();
}

void stage_images(const Gather& gather, int64_t n, GemmMatrices& matrices) {
  const auto run = std::gcd<int64_t>(gather.out[3], 16);
  matrices.begin_b = [=](Code& code, int64_t tile) {
    const int64_t runs = tile / run;
    code.line(fmt::format("{} run_start[{}];", gather.index(), runs));
    code.line(fmt::format("int run_y[{0}], run_x[{0}];", runs));
    code.open(fmt::format("for (int i = 0; i < {}; ++i)", runs));
    const std::string at = plus("n0", times("i", run));
    code.line(fmt::format("const int n = {};", n % tile == 0 ? at : fmt::format("MIN({}, {})", at, n - 1)));
    code.line(fmt::format("const int pixel = {};", remainder("n", gather.plane())));
    code.line(fmt::format("run_start[i] = {};", gather.start("n", "0")));
    code.line(fmt::format("run_y[i] = {};", gather.y_of("pixel")));
    code.line(fmt::format("run_x[i] = {};", gather.x_of("pixel")));
    code.close();
  };
  matrices.stage_b = [=](Code& code, int64_t tile) {
    code.open("for (int k = 0; k < k_count; ++k)");
    code.line(fmt::format("const int tap = {};", remainder("(k0 + k)", gather.count())));
    code.line(fmt::format("const int tap_y = {}, tap_x = {};", gather.tap_y("tap"), gather.tap_x("tap")));
    code.line(fmt::format("const {} channel = {};", gather.index(), gather.start("0", "(k0 + k)")));
    code.open(fmt::format("for (int i = 0; i < {}; ++i)", tile / run));
    code.line(fmt::format("const {} start = run_start[i] + channel;", gather.index()));
    code.line("const int y = run_y[i] + tap_y, x = run_x[i] + tap_x;");
    code.open(fmt::format("for (int j = 0; j < {}; ++j)", run));
    code.line(fmt::format("b_tile[k * {} + i * {} + j] = image_at(b, start, y, {});", tile, run,
                          plus("x", times("j", gather.step.width))));
    code.close();
    code.close();
    code.close();
  };
}

void stage_taps(const Gather& gather, int64_t n, GemmMatrices& matrices) {
  matrices.begin_b = [=](Code& code, int64_t tile) {
    code.line(fmt::format("{} tap_start[{}];", gather.index(), tile));
    code.line(fmt::format("int tap_y[{0}], tap_x[{0}];", tile));
    code.open(fmt::format("for (int j = 0; j < {}; ++j)", tile));
    code.line(fmt::format("const int n = MIN(n0 + j, {}), tap = {};", n - 1, remainder("n", gather.count())));
    code.line(fmt::format("tap_y[j] = {};", gather.tap_y("tap")));
    code.line(fmt::format("tap_x[j] = {};", gather.tap_x("tap")));
    code.line(fmt::format(
        "tap_start[j] = {};",
        plus(gather.start("0", "n"), plus(gather.along("tap_y[j]", 2), gather.along("tap_x[j]", 3)))));
    code.close();
  };
  const int64_t reach_h = (gather.taps.height - 1) * gather.tap_step.height,
                reach_w = (gather.taps.width - 1) * gather.tap_step.width;
  const int64_t image_h = gather.image.shape[2], image_w = gather.image.shape[3];
  matrices.stage_b = [=](Code& code, int64_t tile) {
    const std::string load = fmt::format("LOAD({}, b, start + tap_start[j])", language_name(gather.dtype));
    const auto fill = [&](const std::string& element) {
      code.line(fmt::format("for (int j = 0; j < {0}; ++j) b_tile[k * {0} + j] = {1};", tile, element));
    };
    code.open("for (int k = 0; k < k_count; ++k)");
    code.line(fmt::format("const int pixel = {};", remainder("(k0 + k)", gather.plane())));
    code.line(fmt::format("const int y = {}, x = {};", gather.y_of("pixel"), gather.x_of("pixel")));
    code.line(
        fmt::format("const {} start = {};", gather.index(),
                    plus(gather.start("(k0 + k)", "0"), plus(gather.along("y", 2), gather.along("x", 3)))));
    code.open(fmt::format("if (y >= 0 && y + {} < {} && x >= 0 && x + {} < {})", reach_h, image_h, reach_w,
                          image_w));
    fill(load);
    code.close();
    code.open("else");
    fill(
        fmt::format("(u32)(y + tap_y[j]) < {} && (u32)(x + tap_x[j]) < {} ? {} : 0", image_h, image_w, load));
    code.close();
    code.close();
  };
}

}  // namespace athanor::gpu
