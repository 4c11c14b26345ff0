// Convolutions without matrix units as products: where the elements of the three matrices lie.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv_gather.h"

namespace athanor::gpu {

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
