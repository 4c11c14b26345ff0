// The matrices of convolutions, whose elements are gathered from the images when they are needed.
#include <fmt/format.h>

#include <numeric>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {

namespace {

/// Defines OUT_IMAGE, OUT_CHANNEL, OUT_ROW and OUT_COLUMN: the distances, in the result, between the elements
/// that are computed.
void set_result(const ConvData& data, Defines& defines) {
  defines.set("OUT_IMAGE", data.strides[0])
      .set("OUT_CHANNEL", data.strides[1])
      .set("OUT_ROW", data.out_step.height * data.strides[2])
      .set("OUT_COLUMN", data.out_step.width * data.strides[3]);
}

/// Defines IMAGE_H, IMAGE_W and the strides IMAGE_N, IMAGE_C, IMAGE_ROW and IMAGE_COLUMN.
void set_image(const OperandDesc& image, Defines& defines) {
  defines.set("IMAGE_H", image.shape[2])
      .set("IMAGE_W", image.shape[3])
      .set("IMAGE_N", image.strides[0])
      .set("IMAGE_C", image.strides[1])
      .set("IMAGE_ROW", image.strides[2])
      .set("IMAGE_COLUMN", image.strides[3]);
}

}  // namespace

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
  code.line(fmt::format("return LOAD({0}, image, start + y * ({1}){2} + x * ({1}){3});", dtype, index,
                        image.strides[2], image.strides[3]));
  code.close();
  return code.text();
}

std::string gather_text(const OperandDesc& image, Pair taps, const Shape& out, Pair step, Pair first,
                        Pair tap, Defines defines) {
  // Without taps nothing is gathered; 1 avoids a division by 0 in the text.
  defines.set("KERNEL_H", std::max<int64_t>(taps.height, 1))
      .set("KERNEL_W", std::max<int64_t>(taps.width, 1))
      .set("OUT_H", out[2])
      .set("OUT_W", out[3])
      .set("STEP_H", step.height)
      .set("STEP_W", step.width)
      .set("FIRST_H", first.height)
      .set("FIRST_W", first.width)
      .set("TAP_H", tap.height)
      .set("TAP_W", tap.width);
  set_image(image, defines);
  return defines.text() + std::string(template_text("conv_gather")) +
         image_at_text(image, "DTYPE", "INDEX", gathers_inside(image, taps, out, step, first, tap));
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

/// Weights as [channels out, taps of channels in].
std::string weights_text(const GemmProblem& p, const ConvData& data) {
  const std::string at = fmt::format("(m) * (INDEX){} + ", data.weight_m);
  const std::string along =
      p.a_strided
          ? fmt::format("(k) * (INDEX){}", p.a.column)
          : fmt::format(
                "(k) / TAPS * (INDEX){} + (k) % TAPS / KERNEL_W * (INDEX){} + (k) % KERNEL_W * (INDEX){}",
                data.weight_c, data.weight_tap.height, data.weight_tap.width);
  return "#define A_BEGIN(m, k) (" + at + along + ")\n#define A_AT(m, k) LOAD(DTYPE, a, A_BEGIN(m, k))\n";
}

/// Whether the computed elements are whole images, and not every out_step-th pixel, each plane in order.
bool is_whole(const ConvData& data) {
  const bool rows =
      data.out_step.height * data.strides[2] == data.out[3] && data.out_step.width * data.strides[3] == 1;
  return rows && data.strides[1] == data.out[2] * data.out[3];
}

/// Results as [channels out, pixels].
std::string results_text(const ConvData& data) {
  return is_whole(data)
             ? "#define C_OFFSET(row, column) \\\n"
               "  ((column) / PLANE * (INDEX)OUT_IMAGE + (row) * (INDEX)PLANE + (column) % PLANE)\n"
             : "#define C_OFFSET(row, column) \\\n"
               "  ((column) / PLANE * (INDEX)OUT_IMAGE + (row) * (INDEX)OUT_CHANNEL + \\\n"
               "   (column) % PLANE / OUT_W * (INDEX)OUT_ROW + (column) % OUT_W * (INDEX)OUT_COLUMN)\n";
}

/// A single item stages runs of pixels of a row. It computes the values of a pixel once for each tile, and
/// the values of a tap once for all pixels.
void stage_images(const ConvData& data, int64_t n, GemmMatrices& matrices) {
  const auto run = std::gcd<int64_t>(data.out[3], 16);
  matrices.begin_b = [=](Code& code, int64_t tile) {
    const int64_t runs = tile / run;
    code.line(fmt::format("INDEX run_start[{}];", runs));
    code.line(fmt::format("int run_y[{0}], run_x[{0}];", runs));
    code.open(fmt::format("for (int i = 0; i < {}; ++i)", runs));
    code.line(fmt::format("const int n = MIN(n0 + i * {}, {}), pixel = n % PLANE;", run, n - 1));
    code.line("run_start[i] = n / PLANE * (INDEX)IMAGE_N;");
    code.line("run_y[i] = pixel / OUT_W * STEP_H + FIRST_H;");
    code.line("run_x[i] = pixel % OUT_W * STEP_W + FIRST_W;");
    code.close();
  };
  matrices.stage_b = [=](Code& code, int64_t tile) {
    code.open("for (int k = 0; k < k_count; ++k)");
    code.line(
        "const int tap = (k0 + k) % TAPS, tap_y = tap / KERNEL_W * TAP_H, tap_x = tap % KERNEL_W * TAP_W;");
    code.line("const INDEX channel = (k0 + k) / TAPS * (INDEX)IMAGE_C;");
    code.open(fmt::format("for (int i = 0; i < {}; ++i)", tile / run));
    code.line("const INDEX start = run_start[i] + channel;");
    code.line("const int y = run_y[i] + tap_y, x = run_x[i] + tap_x;");
    code.open(fmt::format("for (int j = 0; j < {}; ++j)", run));
    code.line(fmt::format("b_tile[k * {} + i * {} + j] = image_at(b, start, y, x + j * STEP_W);", tile, run));
    code.close();
    code.close();
    code.close();
  };
}

/// A single item computes the values of the taps once for each tile, and the values of a pixel once for all
/// taps.
void stage_taps(const ConvProblem& conv, int64_t n, GemmMatrices& matrices) {
  matrices.begin_b = [=](Code& code, int64_t tile) {
    code.line(fmt::format("INDEX tap_start[{}];", tile));
    code.line(fmt::format("int tap_y[{0}], tap_x[{0}];", tile));
    code.open(fmt::format("for (int j = 0; j < {}; ++j)", tile));
    code.line(fmt::format("const int n = MIN(n0 + j, {}), tap = n % TAPS;", n - 1));
    code.line("tap_y[j] = tap / KERNEL_W * TAP_H;");
    code.line("tap_x[j] = tap % KERNEL_W * TAP_W;");
    code.line(
        "tap_start[j] = n / TAPS * (INDEX)IMAGE_C + tap_y[j] * (INDEX)IMAGE_ROW + tap_x[j] * "
        "(INDEX)IMAGE_COLUMN;");
    code.close();
  };
  const int64_t reach_h = (conv.w[2] - 1) * conv.dilation.height,
                reach_w = (conv.w[3] - 1) * conv.dilation.width;
  matrices.stage_b = [=](Code& code, int64_t tile) {
    const auto fill = [&](const std::string& element) {
      code.line(fmt::format("for (int j = 0; j < {0}; ++j) b_tile[k * {0} + j] = {1};", tile, element));
      code.close();
    };
    code.open("for (int k = 0; k < k_count; ++k)");
    code.line("const int pixel = (k0 + k) % PLANE;");
    code.line("const int y = pixel / OUT_W * STEP_H + FIRST_H, x = pixel % OUT_W * STEP_W + FIRST_W;");
    code.line(
        "const INDEX start = (k0 + k) / PLANE * (INDEX)IMAGE_N + y * (INDEX)IMAGE_ROW + x * "
        "(INDEX)IMAGE_COLUMN;");
    code.open(fmt::format("if (y >= 0 && y + {} < IMAGE_H && x >= 0 && x + {} < IMAGE_W)", reach_h, reach_w));
    fill("LOAD(DTYPE, b, start + tap_start[j])");
    code.open("else");
    fill(
        "(u32)(y + tap_y[j]) < IMAGE_H && (u32)(x + tap_x[j]) < IMAGE_W ? LOAD(DTYPE, b, start + "
        "tap_start[j]) : 0");
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
  Defines defines;
  set_result(data, defines);
  p.matrices = {.text = gather_text(data.image, taps, data.out, data.step, data.first, data.tap, defines) +
                        weights_text(p, data) + std::string(template_text("conv_data")) + results_text(data),
                .a_along_k = p.a_strided && weight_k == 1,
                .c_run = is_whole(data) ? plane : 1};
  stage_images(data, p.n, *p.matrices);
  return p;
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
  Defines defines;
  defines.set("GRADIENT_N", dy[0]).set("GRADIENT_C", dy[1]).set("GRADIENT_H", dy[2]).set("GRADIENT_W", dy[3]);
  p.matrices = {.text = gather_text(image, {conv.w[2], conv.w[3]}, conv.y, conv.stride,
                                    {-conv.padding.height, -conv.padding.width}, conv.dilation, defines) +
                        std::string(template_text("conv_weights")),
                .a_along_k = true,
                .c_run = 0};
  stage_taps(conv, p.n, *p.matrices);
  return p;
}

}  // namespace athanor::gpu
