// conv2d_weight_grad as one matrix product for each tap of the kernel. Nothing is gathered: with channels
// last, the pixels that a tap sees are rows of a matrix in memory, one row of the result at a time.
#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {

std::vector<GpuCandidate> tap_candidates(const KernelRequest& request, const ConvProblem& conv,
                                         const GpuTraits& traits) {
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  const int64_t c = conv.x[1], taps = conv.w[2] * conv.w[3];
  const int64_t rows = (conv.y[2] - 1) * conv.stride.height + (conv.w[2] - 1) * conv.dilation.height + 1;
  const int64_t columns = (conv.y[3] - 1) * conv.stride.width + (conv.w[3] - 1) * conv.dilation.width + 1;
  const int64_t copied = conv.x[0] * rows * columns * c;
  // With few channels, rows are too short. Offsets have 32 bits.
  if (conv.groups != 1 || c < 8 || conv.y.size() * conv.w.size() == 0 ||
      request.output().dtype == DType::f64 || copied >= INT32_MAX || conv.y.size() >= INT32_MAX)
    return {};

  const auto item = static_cast<int64_t>(size_of(request.output().dtype));
  const Ints& dy = gradient.strides;
  GemmProblem p;
  p.dtype = request.output().dtype;
  p.batch = taps;
  p.m = conv.y[1], p.n = c, p.k = conv.y[0] * conv.y[2] * conv.y[3];
  p.c = {2, 1, c * taps, taps};
  p.scratch_buffer = 3;
  p.a = {1, 0, dy[1], dy[3]};
  p.a_strided = true;
  p.a_run = p.b_run = conv.y[3];
  p.b = {p.scratch_buffer, 0, conv.stride.width * c, 1};
  p.scratch_start = static_cast<size_t>(ceil_div(copied * item, 256) * 256);
  Defines defines;
  defines.set("GRADIENT_N", dy[0])
      .set("GRADIENT_C", dy[1])
      .set("GRADIENT_H", dy[2])
      .set("GRADIENT_W", dy[3])
      .set("OUT_H", conv.y[2])
      .set("OUT_W", conv.y[3])
      .set("KERNEL_W", conv.w[3])
      .set("STEP_H", conv.stride.height)
      .set("STEP_W", conv.stride.width)
      .set("TAP_H", conv.dilation.height)
      .set("TAP_W", conv.dilation.width)
      .set("PADDED_H", rows)
      .set("PADDED_W", columns)
      .set("C", c);
  p.matrices = {.text = defines.text() + std::string(template_text("conv_taps")), .a_along_k = true};

  const GpuLaunch copying = padded_copy(image, {rows, columns}, {-conv.padding.height, -conv.padding.width},
                                        {0}, {p.scratch_buffer}, traits);
  std::vector<GpuCandidate> result;
  for (const GemmPoint& point : traits.grain->points->taps(p, conv, traits)) {
    if (!fits(p, point, traits)) continue;
    GpuCandidate candidate = gemm_candidate(p, point);
    candidate.name = "by taps, " + candidate.name;
    candidate.scratch_bytes = std::max(candidate.scratch_bytes, p.scratch_start);
    candidate.launches.insert(candidate.launches.begin(), copying);
    result.push_back(std::move(candidate));
  }
  return result;
}

}  // namespace athanor::gpu
