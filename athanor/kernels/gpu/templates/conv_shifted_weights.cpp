// conv2d_weight_grad without gathering, for few output channels: see conv_shifted_weights.kernel.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {

std::vector<GpuCandidate> shifted_weight_candidates(const KernelRequest& request, const ConvProblem& conv,
                                                    const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t few_channels = 4;
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  if (p.m > few_channels || p.batch * p.m * p.n * p.k == 0 || p.dtype == DType::f64 || p.wide_index)
    return {};
  const Pair taps{conv.w[2], conv.w[3]};
  const Pair rows_and_columns{
      (conv.y[2] - 1) * conv.stride.height + (taps.height - 1) * conv.dilation.height + 1,
      (conv.y[3] - 1) * conv.stride.width + (taps.width - 1) * conv.dilation.width + 1};
  const ShiftedCopy images{conv.stride,
                           {-conv.padding.height, -conv.padding.width},
                           ceil_div(rows_and_columns.height, conv.stride.height),
                           ceil_div(rows_and_columns.width, conv.stride.width)};
  const ShiftedCopy gradients{1, 0, conv.y[2], images.line};
  const int64_t image_numbers = conv.x[0] * conv.x[1] * images.plane();
  const int64_t gradient_numbers = conv.y[0] * conv.y[1] * gradients.plane();
  if (std::max(image_numbers, gradient_numbers) >= INT32_MAX) return {};

  const int64_t span = (conv.y[2] - 1) * images.line + conv.y[3], channels = conv.w[1];
  const int64_t items = std::min(traits.grain->items, traits.max_group_size);
  int64_t width = traits.grain->width;
  while (width > span) width /= 2;
  const int64_t rows = std::clamp<int64_t>(24 / taps.width, 1, p.m);
  const int64_t tiles = ceil_div(p.m, rows) * taps.height * channels * p.batch;
  // If there are few tiles, splits the images into parts.
  int64_t splits =
      std::clamp<int64_t>(ceil_div(traits.grain->shifted_parts * traits.compute_units, tiles), 1, conv.x[0]);
  while (conv.x[0] % splits != 0) --splits;
  const int64_t vectors = conv.x[0] / splits * ceil_div(span, width) * rows * taps.width + 64;
  const int64_t each = tiles_of_group(traits, tiles * splits, vectors, traits.grain->shifted_weights_work);

  const auto item = static_cast<int64_t>(size_of(p.dtype));
  const auto padded = [](int64_t bytes) { return ceil_div(bytes, 256) * 256; };
  const GpuLaunch::Argument image_copy{p.scratch_buffer},
      gradient_copy{p.scratch_buffer, padded(image_numbers * item)},
      parts{p.scratch_buffer, gradient_copy.byte_offset + padded(gradient_numbers * item)};
  const GpuLaunch::Argument result{p.c.buffer, p.c.start};
  Defines defines;
  defines.set("ROWS", rows)
      .set("WIDTH", std::to_string(width))
      .set("TILES_EACH", each)
      .set("SPLITS", splits)
      .set("IMAGES", conv.x[0])
      .set("CHANNELS", channels)
      .set("TAPS_H", taps.height)
      .set("TAPS_W", taps.width)
      .set("TAP_H", conv.dilation.height)
      .set("TAP_W", conv.dilation.width)
      .set("STEP_H", conv.stride.height)
      .set("STEP_W", conv.stride.width)
      .set("OUT_H", conv.y[2])
      .set("OUT_W", conv.y[3])
      .set("LINE", images.line)
      .set("PHASE", images.lines * images.line)
      .set("IMAGE_C", images.plane());
  GemmProblem summed = p;
  summed.matrices = {};
  summed.c = {p.c.buffer, p.c.batch, p.n, 1, p.c.start};
  GpuCandidate candidate;
  candidate.name =
      fmt::format("shifted {}x{}{}", rows, taps.width, splits > 1 ? fmt::format(" split {}", splits) : "");
  candidate.parameters = {{"rows", rows}, {"width", width}, {"items", items}, {"splits", splits}};
  candidate.scratch_bytes =
      static_cast<size_t>(parts.byte_offset + (splits > 1 ? splits * p.batch * p.m * p.n * 4 : 0));
  candidate.launches = {shifted_copy(image, images, 0, image_copy, traits),
                        shifted_copy(gradient, gradients, 1, gradient_copy, traits),
                        {.name = "conv_shifted_weights",
                         .source = gemm_prelude(summed, false, defines) + vectors_text(p.dtype, width) +
                                   std::string(template_text("conv_shifts")) +
                                   std::string(template_text("conv_shifted_weights")),
                         .groups = {ceil_div(tiles * splits, each), 1, 1},
                         .group_size = {items, 1, 1},
                         .local_bytes = items > 1 ? items * 4 : 0,
                         .arguments = {image_copy, gradient_copy, splits > 1 ? parts : result}}};
  if (splits > 1) candidate.launches.push_back(sum_launch(summed, splits, parts));
  return {candidate};
}

}  // namespace athanor::gpu
