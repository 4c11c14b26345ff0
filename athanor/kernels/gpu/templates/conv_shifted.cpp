// conv2d and conv2d_input_grad without gathering: runs of pixels, as they lie in memory, times each tap. For
// few output channels, which would use a gathered pixel only a few times, and for few products for each
// output.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv_shifted.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t few_channels = 32, few_products = 64;

PixelRuns runs_of(const std::vector<ConvData>& phases) {
  const ConvData& one = phases.front();
  PixelRuns runs{};
  for (const ConvData& phase : phases) {
    if (phase.out[2] * phase.out[3] * phase.taps.height * phase.taps.width == 0) continue;
    runs.rows.add(phase.out[2], one.step.height, phase.first.height, phase.tap.height, phase.taps.height);
    runs.columns.add(phase.out[3], one.step.width, phase.first.width, phase.tap.width, phase.taps.width);
  }
  const auto& strides = one.image.strides;
  runs.copied = !(one.step.height == 1 && one.step.width == 1 && strides[3] == 1 &&
                  strides[2] >= one.image.shape[3] && runs.rows.low >= 0 && runs.columns.low >= 0 &&
                  runs.rows.high < one.image.shape[2] && runs.columns.high < one.image.shape[3]);
  if (runs.copied) {
    runs.lines = ceil_div(runs.rows.count(), one.step.height);
    runs.line = ceil_div(runs.columns.count(), one.step.width);
    runs.channel = one.step.height * one.step.width * runs.lines * runs.line;
    runs.image = one.image.shape[1] * runs.channel;
  } else {
    runs.rows.low = runs.columns.low = 0;
    runs.lines = one.image.shape[2];
    runs.line = strides[2];
    runs.channel = strides[1];
    runs.image = strides[0];
  }
  return runs;
}

int64_t tiles_of(const GemmProblem& p, const ConvData& data, const PixelRuns& runs,
                 const ShiftedPoint& point) {
  return ceil_div(p.m, point.rows) * ceil_div(runs.span(data), point.tile()) * p.batch * data.out[0];
}

/// Limits vectors to the run's length, and chooses enough tiles for all compute units.
ShiftedPoint fitted(ShiftedPoint point, const GemmProblem& p, const ConvData& data, const PixelRuns& runs,
                    const GpuTraits& traits) {
  const int64_t span = runs.span(data);
  while (point.width > span) point.width /= 2;
  point.vectors = std::min(point.vectors, ceil_div(span, point.width * point.items));
  while (point.vectors > 1 && tiles_of(p, data, runs, point) < 2L * traits.compute_units) --point.vectors;
  return point;
}

GpuLaunch shifted_launch(const GemmProblem& p, const ConvData& data, const PixelRuns& runs,
                         const ShiftedPoint& point, GpuLaunch::Argument images, const GpuTraits& traits) {
  const int64_t tiles = tiles_of(p, data, runs, point);
  const int64_t multiplications = p.k * point.rows * point.vectors + 256;
  const int64_t each = tiles_of_group(traits, tiles, multiplications, traits.grain->shifted_work);
  const std::string type = stored(p.dtype);
  const std::vector<Parameter> parameters = gemm_parameters(
      {{"images", "const " + type, images}, {"weights", "const " + type, {p.a.buffer, p.a.start}}}, p, true,
      {"results", type, {p.c.buffer, p.c.start}});
  return {.name = "conv_shifted",
          .source = shifted_kernel(p, parameters, data, runs, point, each),
          .groups = {ceil_div(tiles, each), 1, 1},
          .group_size = {point.items, 1, 1},
          .arguments = arguments_of(parameters)};
}

/// Points with as many vectors as fit 32 vector registers beside the pixels and a weight.
std::vector<ShiftedPoint> shifted_points(const GemmProblem& p, const GpuTraits& traits) {
  const Grain& grain = *traits.grain;
  const int64_t rows = ceil_div(p.m, ceil_div(p.m, grain.shifted_rows));
  const int64_t vectors = std::min(grain.shifted_vectors, 28 / (rows + 1));
  const int64_t items = std::min(grain.items, traits.max_group_size);
  std::vector<ShiftedPoint> points{{rows, vectors, grain.width, items}};
  if (grain.widest > grain.width) points.push_back({rows, vectors, grain.widest, items});
  return points;
}

}  // namespace

std::vector<GpuCandidate> shifted_candidates(const std::vector<ConvData>& phases,
                                             const std::vector<GemmProblem>& parts, const GpuTraits& traits) {
  const GemmProblem& largest = *std::ranges::max_element(parts, {}, &GemmProblem::k);
  if ((largest.m > few_channels && largest.k > few_products) || largest.wide_index ||
      largest.dtype == DType::f64 || largest.batch * largest.m * largest.n * largest.k == 0)
    return {};
  const ConvData& one = phases.front();
  const PixelRuns runs = runs_of(phases);
  const int64_t copied = one.image.shape[0] * one.image.shape[1] * runs.channel;
  if (runs.copied && copied >= INT32_MAX) return {};
  std::vector<GpuCandidate> result;
  for (const ShiftedPoint& point : shifted_points(largest, traits)) {
    GpuCandidate candidate;
    GpuLaunch::Argument images{0};
    if (runs.copied) {
      images = {largest.scratch_buffer};
      candidate.scratch_bytes = static_cast<size_t>(copied) * size_of(largest.dtype);
      const ShiftedCopy copy{one.step, {runs.rows.low, runs.columns.low}, runs.lines, runs.line};
      candidate.launches.push_back(shifted_copy(one.image, copy, 0, images, traits));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].m * parts[i].n == 0) continue;
      const ShiftedPoint own = fitted(point, parts[i], phases[i], runs, traits);
      candidate.launches.push_back(shifted_launch(parts[i], phases[i], runs, own, images, traits));
      if (parts[i].k < largest.k) continue;
      candidate.name = fmt::format("shifted {}x{}{}", own.rows, own.tile(), runs.copied ? " of a copy" : "");
      candidate.parameters = {
          {"rows", own.rows}, {"vectors", own.vectors}, {"width", own.width}, {"items", own.items}};
    }
    result.push_back(std::move(candidate));
  }
  return result;
}

}  // namespace athanor::gpu
