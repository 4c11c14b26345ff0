// Writes the kernels that transform the weights of Winograd's convolutions, and their gradient back.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_text.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {

std::string winograd_weights(int64_t outputs, const ConvData& data, DType dtype, int64_t lanes,
                             int64_t chunks) {
  const int64_t patch = outputs + 2, points = patch * patch;
  const int64_t c = data.channels_in, all = data.channels_out * c, span = lanes * chunks;
  const auto at = [&](const std::string& weight) {
    return fmt::format("({0}) / {1} * (i64){2} + ({0}) % {1} * (i64){3}", weight, c, data.weight_m,
                       data.weight_c);
  };
  const std::string load = fmt::format("LOAD({}, w, at + tap / 3 * (i64){} + tap % 3 * (i64){})",
                                       language_name(dtype), data.weight.strides[2], data.weight.strides[3]);
  // The gradient of the images uses weights turned by 180 degrees.
  const char *const tap = data.gradient ? "8 - tap" : "tap", *const each = each_number(lanes, outputs);
  Code code;
  open_kernel(code, "winograd_weights", {{"w", "const " + stored(dtype)}, {"transformed", "f32"}}, false);
  code.line(fmt::format("const i64 begin = {}, end = MIN(begin + {}, {});", times("GLOBAL_ID(0)", span), span,
                        all));
  code.open(fmt::format("for (i64 first = begin; first < end; first += {})", lanes));
  code.line(fmt::format("{} taps[9], rows[{}], points[{}];", lanes_type(lanes), 3 * patch, points));
  if (lanes == 1) {
    code.line(fmt::format("const i64 at = {};", at("first")));
    code.line(fmt::format("UNROLL for (int tap = 0; tap < 9; ++tap) taps[{}] = {};", tap, load));
  } else {
    code.line(fmt::format("f32 lanes[9][{}];", lanes));
    code.open(fmt::format("for (int lane = 0; lane < {}; ++lane)", lanes));
    code.line(fmt::format("const i64 at = {};", at("first + lane")));
    code.line(fmt::format("for (int tap = 0; tap < 9; ++tap) lanes[tap][lane] = {};", load));
    code.close();
    code.line(fmt::format("{} (int tap = 0; tap < 9; ++tap) taps[{}] = VLOAD({}, lanes[tap], 0);", each, tap,
                          lanes));
  }
  const WinogradTransform& transform = winograd_transforms(outputs).weights;
  write_transforms(code, transform, 3, {"taps", 1, 3}, {"rows", 1, 3}, lanes, each);
  write_transforms(code, transform, patch, {"rows", 3, 1}, {"points", patch, 1}, lanes, each);
  code.line(
      fmt::format("{} (int p = 0; p < {}; ++p) {}", each, points,
                  store_lanes(lanes, "transformed", fmt::format("p * (i64){} + first", all), "points[p]")));
  code.close();
  code.close();
  return code.text();
}

std::string winograd_taps(int64_t outputs, DType dtype, int64_t m, int64_t c, int64_t parts, int64_t lanes,
                          int64_t chunks) {
  const int64_t patch = outputs + 2, points = patch * patch, all = m * c, span = lanes * chunks;
  const std::string type = lanes_type(lanes);
  // Numbers of one tile stay in registers, which a loop can only use unrolled. Others compile faster as they
  // are.
  const char *const unroll = lanes == 1 ? "UNROLL " : "", *const each = each_number(lanes, outputs);
  Code code;
  open_kernel(code, "winograd_taps", {{"parts", "const f32"}, {"w", stored(dtype)}}, false);
  code.line(fmt::format("const i64 begin = {};", times("GLOBAL_ID(0)", span)));
  code.line(fmt::format("if (begin >= {}) return;", all));
  const auto sum = [&](const std::string& at) {
    code.line(fmt::format("f32 sum = from[{}];", at));
    if (parts > 1)
      code.line(fmt::format("UNROLL for (int part = 1; part < {}; ++part) sum += from[part * (i64){}{}];",
                            parts, points * all, at == "0" ? "" : " + " + at));
  };
  const auto open_points = [&] {
    code.open(fmt::format("{}for (int p = 0; p < {}; ++p)", unroll, points));
    code.line(fmt::format("GLOBAL const f32 *const from = parts + (p * (i64){} + begin);", all));
  };
  if (span == 1) {
    code.line(fmt::format("f32 points[{}];", points));
    open_points();
    sum("0");
    code.line("points[p] = sum;");
    code.close();
  } else {
    code.line(all % span == 0 ? fmt::format("const int count = {};", span)
                              : fmt::format("const int count = (int)MIN((i64){}, {} - begin);", span, all));
    code.line("// Reads in runs: a CPU can prefetch only a limited number of streams at a time.");
    code.line(fmt::format("f32 sums[{}][{}];", points, span));
    open_points();
    code.open("for (int i = 0; i < count; ++i)");
    sum("i");
    code.line("sums[p][i] = sum;");
    code.close();
    code.close();
    code.open(fmt::format("for (int first = 0; first < count; first += {})", lanes));
    code.line(fmt::format("{} points[{}];", type, points));
    code.line(fmt::format("{} (int p = 0; p < {}; ++p) points[p] = {};", each, points,
                          load_lanes(lanes, "sums[p]", "first")));
  }
  write_patch_transforms(code, winograd_transforms(outputs).taps, patch, 3, patch, lanes, each);
  const std::string of_tap = fmt::format("points[tap / 3 * {} + tap % 3]", patch);
  const auto store = [&](const std::string& weight, const std::string& x) {
    code.line(fmt::format("{}for (int tap = 0; tap < 9; ++tap) STORE({}, w, ({}) * 9 + tap, {});", unroll,
                          language_name(dtype), weight, x));
  };
  if (lanes == 1) {
    store(span == 1 ? "begin" : "begin + first", of_tap);
  } else {
    code.line(fmt::format("f32 lanes[9][{}];", lanes));
    code.line(
        fmt::format("{} (int tap = 0; tap < 9; ++tap) VSTORE({}, lanes[tap], 0, {});", each, lanes, of_tap));
    code.open(fmt::format("for (int lane = 0; lane < {}; ++lane)", lanes));
    store("begin + first + lane", "lanes[tap][lane]");
    code.close();
  }
  if (span > 1) code.close();
  code.close();
  return code.text();
}

}  // namespace athanor::gpu
