// conv2d, conv2d_input_grad and conv2d_weight_grad as products of matrices, one a group, whose elements are
// gathered from the images as they are needed (implicit GEMM).
#include <algorithm>
#include <numeric>

#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/ops/conv_problem.h"

namespace athanor::gpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool fits_in_32_bits(const KernelRequest& request) {
  const auto reach = [](const OperandDesc& x) {
    int64_t total = 0;
    for (int axis = 0; axis < x.shape.rank(); ++axis)
      total += std::max<int64_t>(x.shape[axis] - 1, 0) * std::abs(x.strides[static_cast<size_t>(axis)]);
    return total;
  };
  int64_t most = reach(request.output);
  for (const OperandDesc& input : request.inputs) most = std::max(most, reach(input));
  return most < INT32_MAX / 2;
}

/// The images that are gathered from: [N, C, H, W] with strides, and where the taps of an output row lie.
struct Gather {
  const OperandDesc& image;
  int64_t out_h, out_w;
  Pair step, first, tap, divisor;
};

std::string gather_text(const Gather& g, const ConvProblem& conv, Defines defines) {
  const Shape& image = g.image.shape;
  const Ints& strides = g.image.strides;
  const auto inside = [](int64_t extent, int64_t out, int64_t step, int64_t first, int64_t tap,
                         int64_t kernel) {
    const int64_t low = first + std::min<int64_t>(tap * (kernel - 1), 0);
    const int64_t high = (out - 1) * step + first + std::max<int64_t>(tap * (kernel - 1), 0);
    return low >= 0 && high < extent;
  };
  const bool padded = g.divisor.height != 1 || g.divisor.width != 1 ||
                      !inside(image[2], g.out_h, g.step.height, g.first.height, g.tap.height, conv.w[2]) ||
                      !inside(image[3], g.out_w, g.step.width, g.first.width, g.tap.width, conv.w[3]);
  defines.set("KERNEL_H", conv.w[2])
      .set("KERNEL_W", conv.w[3])
      .set("IMAGE_H", image[2])
      .set("IMAGE_W", image[3])
      .set("IMAGE_N", strides[0])
      .set("IMAGE_C", strides[1])
      .set("IMAGE_ROW", strides[2])
      .set("IMAGE_COLUMN", strides[3])
      .set("OUT_H", g.out_h)
      .set("OUT_W", g.out_w)
      .set("STEP_H", g.step.height)
      .set("STEP_W", g.step.width)
      .set("FIRST_H", g.first.height)
      .set("FIRST_W", g.first.width)
      .set("TAP_H", g.tap.height)
      .set("TAP_W", g.tap.width)
      .set("DIVISOR_H", g.divisor.height)
      .set("DIVISOR_W", g.divisor.width)
      .set("PADDED", padded);
  return defines.text() + std::string(template_text("conv_gather"));
}

GemmProblem common(const KernelRequest& request, const ConvProblem& conv) {
  GemmProblem p;
  p.dtype = request.output.dtype;
  p.batch = conv.groups;
  p.activation = request.epilogue.activation;
  p.c.buffer = static_cast<int>(request.inputs.size());
  p.scratch_buffer = p.c.buffer + 1;
  p.wide_index = !fits_in_32_bits(request);
  p.b_strided = false;
  return p;
}

/// Of conv2d (`gradient` false) or conv2d_input_grad.
GemmProblem data_problem(const KernelRequest& request, const ConvProblem& conv, bool gradient) {
  const OperandDesc &image = request.inputs[0], &weight = request.inputs[1];
  const int64_t channels_in = (gradient ? conv.y[1] : conv.x[1]) / conv.groups;
  const int64_t channels_out = (gradient ? conv.x[1] : conv.y[1]) / conv.groups;
  const Shape& out = request.output.shape;
  const int64_t plane = out[2] * out[3];
  GemmProblem p = common(request, conv);
  p.m = channels_out;
  p.n = out[0] * plane;
  p.k = channels_in * conv.w[2] * conv.w[3];
  const Ints& w = weight.strides;
  const int64_t weight_m = gradient ? w[1] : w[0], weight_c = gradient ? w[0] : w[1];
  p.a = {1, w[0] * (conv.w[0] / conv.groups), weight_m, 1};
  p.b = {0, image.strides[1] * channels_in, 0, 0};
  p.c = {p.c.buffer, channels_out * plane, 0, 0};
  if (request.epilogue.bias) {
    p.bias_buffer = 2;
    p.bias_row = request.inputs[2].strides.back();
    p.bias_batch = p.bias_row * channels_out;
  }
  const bool together = (conv.w[3] == 1 || w[3] == 1) && (conv.w[2] == 1 || w[2] == conv.w[3]) &&
                        (channels_in == 1 || weight_c == conv.w[2] * conv.w[3]);
  p.a_strided = together;
  const Pair one(1);
  const Gather gather =
      gradient
          ? Gather{image,      out[2],       out[3],
                   one,        conv.padding, {-conv.dilation.height, -conv.dilation.width},
                   conv.stride}
          : Gather{image,         out[2], out[3], conv.stride, {-conv.padding.height, -conv.padding.width},
                   conv.dilation, one};
  Defines defines;
  defines.set("WEIGHTS_TOGETHER", together)
      .set("WEIGHT_M", weight_m)
      .set("WEIGHT_C", weight_c)
      .set("WEIGHT_H", w[2])
      .set("WEIGHT_W", w[3])
      .set("OUT_IMAGE", out[1] * plane)
      .set("RUN", std::gcd<int64_t>(out[3], 16));
  p.matrices = gather_text(gather, conv, defines) + std::string(template_text("conv_data"));
  return p;
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
  p.a_strided = conv.y[2] == 1 || dy[2] == conv.y[3] * dy[3];
  p.a_run = plane;
  const Gather gather{
      image,         conv.y[2], conv.y[3], conv.stride, {-conv.padding.height, -conv.padding.width},
      conv.dilation, Pair(1)};
  Defines defines;
  defines.set("GRADIENT_N", dy[0]).set("GRADIENT_C", dy[1]).set("GRADIENT_H", dy[2]).set("GRADIENT_W", dy[3]);
  p.matrices = gather_text(gather, conv, defines) + std::string(template_text("conv_weights"));
  return p;
}

int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

std::vector<GemmPoint> cpu_points(const GemmProblem& p, const GpuTraits& traits) {
  using enum GemmSource;
  std::vector<GemmPoint> points;
  const auto add = [&](int64_t rows, int64_t vectors, GemmSource a) {
    GemmPoint point{.a = a, .b = staged, .rows = std::min(p.m, rows), .vectors = vectors};
    point.rows = ceil_div(p.m, ceil_div(p.m, point.rows));
    while (point.width > 4 && point.width / 2 >= p.n) point.width /= 2;
    while (point.vectors > 1 && (point.vectors - 1) * point.width >= p.n) --point.vectors;
    // All rows of a group, so that what is gathered is used as often as can be.
    point.subtiles = std::min<int64_t>(ceil_div(p.m, point.rows), 64);
    point.k_step = std::min<int64_t>(p.k, 8192 / point.tile_n());
    const auto groups = [&] {
      return p.batch * ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n());
    };
    point.splits =
        std::clamp<int64_t>(std::min(ceil_div(2L * traits.compute_units, groups()), p.k / 1024), 1, 64);
    if (p.a_run > 0) {
      if (a == direct) {
        point.k_step = largest_divisor(p.a_run, 256);
        if (point.k_step < 32 && p.k > 64) return;
      }
      // Parts of whole images.
      const int64_t images = p.k / p.a_run;
      point.splits = std::clamp<int64_t>(point.splits, 1, images);
      while (images % point.splits != 0) --point.splits;
    } else {
      point.splits = 1;
    }
    points.push_back(point);
  };
  add(8, 2, direct);
  add(8, 2, packed);
  add(8, 3, p.a_strided ? direct : packed);
  add(8, 2, staged);
  return points;
}

std::vector<GpuCandidate> candidates(const GemmProblem& p, const GpuTraits& traits, std::string_view op) {
  if (p.batch * p.m * p.n == 0) return {{.name = "nothing"}};
  std::vector<GpuCandidate> result;
  if (p.dtype != DType::f64 && p.k > 0) {
    auto points = traits.is_cpu ? cpu_points(p, traits) : gemm_points(p, traits);
    std::erase_if(points, [&](const GemmPoint& point) { return !fits(p, point, traits); });
    for (const GemmPoint& point : points) result.push_back(gemm_candidate(p, point));
  }
  if (result.empty() || p.m < 4)
    result.push_back(traits.is_cpu
                         ? plain_gemm_candidate(p, std::min<int64_t>(p.m, 4), p.n >= 8 ? 8 : 1, 1, 1)
                         : plain_gemm_candidate(p, 1, 1, 64, 1));
  for (GpuCandidate& candidate : result) candidate.name = std::string(op) + " " + candidate.name;
  return result;
}

}  // namespace

std::vector<GpuCandidate> conv2d(const KernelRequest& request, const GpuTraits& traits) {
  const ConvProblem conv(request.inputs[0].shape, request.inputs[1].shape, request.attrs);
  return candidates(data_problem(request, conv, false), traits, "implicit");
}

std::vector<GpuCandidate> conv2d_input_grad(const KernelRequest& request, const GpuTraits& traits) {
  const ConvProblem conv(request.output.shape, request.inputs[1].shape, request.attrs);
  return candidates(data_problem(request, conv, true), traits, "implicit");
}

std::vector<GpuCandidate> conv2d_weight_grad(const KernelRequest& request, const GpuTraits& traits) {
  const ConvProblem conv(request.inputs[0].shape, request.output.shape, request.attrs);
  return candidates(weight_problem(request, conv), traits, "implicit");
}

}  // namespace athanor::gpu
