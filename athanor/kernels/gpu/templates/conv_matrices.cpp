// The matrices of convolutions, whose elements are gathered from the images when they are needed.
#include <fmt/format.h>

#include <numeric>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv.h"

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

namespace {

bool fits_in_32_bits(const KernelRequest& request) {
  const auto reach = [](const OperandDesc& x) {
    int64_t total = 0;
    for (int axis = 0; axis < x.shape.rank(); ++axis)
      total += std::max<int64_t>(x.shape[axis] - 1, 0) * std::abs(x.strides[static_cast<size_t>(axis)]);
    return total;
  };
  int64_t most = reach(request.output());
  for (const OperandDesc& input : request.inputs) most = std::max(most, reach(input));
  return most < INT32_MAX / 2;
}

GemmProblem common(const KernelRequest& request, const ConvProblem& conv) {
  GemmProblem p;
  p.dtype = request.output().dtype;
  p.batch = conv.groups;
  p.c.buffer = static_cast<int>(request.inputs.size());
  p.scratch_buffer = request.scratch_buffer();
  p.wide_index = !fits_in_32_bits(request);
  p.b_strided = false;
  return p;
}

/// The elements that taps take from images: [taps of channels in, pixels]. Row i of the result takes row
/// i * step + first + tap * tap_step of the image with each tap.
struct Gather {
  OperandDesc image;
  Pair taps;
  Shape out;
  Pair step, first, tap_step;
  DType dtype;
  bool wide;

  int64_t count() const { return std::max<int64_t>(taps.height * taps.width, 1); }
  int64_t plane() const { return out[2] * out[3]; }
  std::string index() const { return wide ? "i64" : "i32"; }
  std::string along(const std::string& number, int axis) const {
    return strided(number, image.strides[static_cast<size_t>(axis)], wide);
  }
  // Where a pixel's taps begin, in rows and columns of its image.
  std::string y_of(const std::string& pixel) const {
    return plus(times(divided(pixel, out[3]), step.height), first.height);
  }
  std::string x_of(const std::string& pixel) const {
    return plus(times(remainder(pixel, out[3]), step.width), first.width);
  }
  // How far a tap is from there.
  std::string tap_y(const std::string& tap) const {
    return times(divided(tap, std::max<int64_t>(taps.width, 1)), tap_step.height);
  }
  std::string tap_x(const std::string& tap) const {
    return times(remainder(tap, std::max<int64_t>(taps.width, 1)), tap_step.width);
  }
  /// Where the image of a pixel and the channel of a tap begin.
  std::string start(const std::string& pixel, const std::string& tap) const {
    return plus(along(divided(pixel, plane()), 0), along(divided(tap, count()), 1));
  }

  /// image_at().
  std::string image_text() const {
    return image_at_text(image, language_name(dtype), index(),
                         gathers_inside(image, taps, out, step, first, tap_step));
  }
  /// image_at(), and the function image_element(b, pixel, tap).
  std::string element_text() const {
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
};

/// Weights as [channels out, taps of channels in].
GemmMatrices::At weight_place(const GemmProblem& p, const ConvData& data, bool wide) {
  const int64_t taps = std::max<int64_t>(data.taps.height * data.taps.width, 1);
  return [=, strided_k = p.a_strided, a = p.a, width = std::max<int64_t>(data.taps.width, 1),
          c = data.weight_c, tap = data.weight_tap](const std::string& m, const std::string& k) {
    const std::string row = strided(m, a.row, wide);
    if (strided_k) return plus(row, strided(k, a.column, wide));
    const std::string number = operand(k), of_kernel = remainder(number, taps);
    return plus(plus(row, strided(divided(number, taps), c, wide)),
                plus(strided(divided(of_kernel, width), tap.height, wide),
                     strided(remainder(of_kernel, width), tap.width, wide)));
  };
}

/// Whether the computed elements are whole images, and not every out_step-th pixel, each plane in order.
bool is_whole(const ConvData& data) {
  const bool rows =
      data.out_step.height * data.strides[2] == data.out[3] && data.out_step.width * data.strides[3] == 1;
  return rows && data.strides[1] == data.out[2] * data.out[3];
}

/// Images of pixels, as [.., pixels]: where pixel `column` lies.
std::string pixel_place(const std::string& pixels, const Shape& out, const Ints& strides, bool wide) {
  const int64_t plane = out[2] * out[3];
  const std::string number = operand(pixels), pixel = remainder(number, plane);
  const std::string image = strided(divided(number, plane), strides[0], wide);
  if (strides[2] == out[3] * strides[3]) return plus(image, strided(pixel, strides[3], wide));
  return plus(image, plus(strided(divided(pixel, out[3]), strides[2], wide),
                          strided(remainder(number, out[3]), strides[3], wide)));
}

/// A single item stages runs of pixels of a row. It computes the values of a pixel once for each tile, and
/// the values of a tap once for all pixels.
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

/// A single item computes the values of the taps once for each tile, and the values of a pixel once for all
/// taps.
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

}  // namespace

GemmProblem data_problem(const KernelRequest& request, const ConvData& data) {
  const ConvProblem& conv = data.conv;
  const int64_t plane = data.out[2] * data.out[3];
  GemmProblem p = common(request, conv);
  p.m = data.channels_out;
  p.n = data.out[0] * plane;
  const Pair taps = data.taps;
  const auto item = static_cast<int64_t>(size_of(p.dtype));
  p.k = data.channels_in * taps.height * taps.width;
  const bool one_tap = taps.height * taps.width == 1;
  const int64_t weight_k = one_tap ? data.weight_c : 1;
  p.a = {1, data.weight.strides[0] * (conv.w[0] / conv.groups), data.weight_m, weight_k,
         data.weight_first * item};
  p.b = {0, data.image.strides[1] * data.channels_in, 0, 0};
  p.c = {p.c.buffer, data.channels_out * data.strides[1], 0, 0, data.first_result() * item};
  p.epilogue = data.epilogue(request);
  const bool together = (taps.width == 1 || data.weight_tap.width == 1) &&
                        (taps.height == 1 || data.weight_tap.height == taps.width) &&
                        (data.channels_in == 1 || data.weight_c == taps.height * taps.width);
  p.a_strided = together || one_tap;
  const bool wide = has_wide_index(p);
  const Gather gather{data.image, taps, data.out, data.step, data.first, data.tap, p.dtype, wide};
  const auto place = weight_place(p, data, wide);
  const Ints results{data.strides[0], data.strides[1], data.out_step.height * data.strides[2],
                     data.out_step.width * data.strides[3]};
  p.matrices = {
      .a_element = elements_at(p.dtype, "a", place),
      .b_element = [](const std::string& k,
                      const std::string& n) { return fmt::format("image_element(b, {}, {})", n, k); },
      .c_place =
          [=, out = data.out](const std::string& row, const std::string& column) {
            return plus(strided(row, results[1], wide), pixel_place(column, out, results, wide));
          },
      .a_place = place,
      .b_begin = [stride = p.b.batch](const std::string& batch) { return times64(batch, stride); },
      .b_functions = gather.element_text(),
      .stage_functions = gather.image_text(),
      .a_along_k = p.a_strided && weight_k == 1,
      .c_run = is_whole(data) ? plane : 1};
  stage_images(gather, p.n, *p.matrices);
  return p;
}

GemmMatrices::At gradient_place(const OperandDesc& gradient, const Shape& out, bool wide) {
  return [strides = gradient.strides, out, wide](const std::string& m, const std::string& k) {
    return plus(strided(m, strides[1], wide), pixel_place(k, out, strides, wide));
  };
}

ResultEpilogue epilogue_of_weights(const KernelRequest& request, const ConvProblem& conv) {
  const int64_t rows = conv.w[0] / conv.groups, columns = conv.w[1] * conv.w[2] * conv.w[3];
  ResultEpilogue finish(request);
  finish.axes = {{.row = 1, .stride = columns, .extent = rows},
                 {.batch = 1, .stride = rows * columns, .extent = conv.groups}};
  return finish;
}

GemmProblem weight_problem(const KernelRequest& request, const ConvProblem& conv) {
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  const int64_t plane = conv.y[2] * conv.y[3];
  GemmProblem p = common(request, conv);
  p.m = conv.y[1] / conv.groups;
  p.n = conv.w[1] * conv.w[2] * conv.w[3];
  p.k = conv.y[0] * plane;
  const Ints& dy = gradient.strides;
  p.a = {1, dy[1] * p.m, dy[1], dy[3]};
  p.b = {0, image.strides[1] * conv.w[1], 0, 0};
  p.c = {p.c.buffer, p.m * p.n, 0, 0};
  p.epilogue = epilogue_of_weights(request, conv);
  p.a_strided = conv.y[2] == 1 || dy[2] == conv.y[3] * dy[3];
  p.a_run = plane;
  const bool wide = has_wide_index(p);
  const Gather gather{image,
                      {conv.w[2], conv.w[3]},
                      conv.y,
                      conv.stride,
                      {-conv.padding.height, -conv.padding.width},
                      conv.dilation,
                      p.dtype,
                      wide};
  const auto place = gradient_place(gradient, conv.y, wide);
  p.matrices = {
      .a_element = elements_at(p.dtype, "a", place),
      .b_element = [](const std::string& k,
                      const std::string& n) { return fmt::format("image_element(b, {}, {})", k, n); },
      .c_place = [wide, n = p.n](const std::string& row,
                                 const std::string& column) { return plus(strided(row, n, wide), column); },
      .a_place = place,
      .b_begin = [stride = p.b.batch](const std::string& batch) { return times64(batch, stride); },
      .b_functions = gather.element_text(),
      .a_along_k = true,
      .c_run = 0};
  stage_taps(gather, p.n, *p.matrices);
  return p;
}

}  // namespace athanor::gpu
