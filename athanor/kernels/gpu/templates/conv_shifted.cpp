// conv2d and conv2d_input_grad without gathering: runs of pixels, as they lie in memory, times each tap. For
// few output channels, which would use a gathered pixel only a few times, and for few products for each
// output.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t few_channels = 32, few_products = 64;

/// The rows (or columns) of the images that the phases use.
struct TakenAxis {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t results, int64_t step, int64_t first, int64_t tap, int64_t taps) {
    if (taps == 0) return;
    const int64_t along = tap * (taps - 1);
    low = std::min(low, first + std::min<int64_t>(along, 0));
    high = std::max(high, first + step * (results - 1) + std::max<int64_t>(along, 0));
  }
  int64_t count() const { return high - low + 1; }
};

/// Where runs of pixels are: in the images themselves, or in a copy with padding.
struct PixelRuns {
  bool copied;
  TakenAxis rows, columns;
  int64_t lines, line;     // rows and columns, one in `step` each
  int64_t image, channel;  // strides
};

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

/// A point of the template's tuning space.
struct ShiftedPoint {
  int64_t rows, vectors, width, items;
  int64_t tile() const { return vectors * width * items; }
};

int64_t span_of(const ConvData& data, const PixelRuns& runs) {
  return (data.out[2] - 1) * runs.line + data.out[3];
}

int64_t tiles_of(const GemmProblem& p, const ConvData& data, const PixelRuns& runs,
                 const ShiftedPoint& point) {
  return ceil_div(p.m, point.rows) * ceil_div(span_of(data, runs), point.tile()) * p.batch * data.out[0];
}

/// Limits vectors to the run's length, and chooses enough tiles for all compute units.
ShiftedPoint fitted(ShiftedPoint point, const GemmProblem& p, const ConvData& data, const PixelRuns& runs,
                    const GpuTraits& traits) {
  const int64_t span = span_of(data, runs);
  while (point.width > span) point.width /= 2;
  point.vectors = std::min(point.vectors, ceil_div(span, point.width * point.items));
  while (point.vectors > 1 && tiles_of(p, data, runs, point) < 2L * traits.compute_units) --point.vectors;
  return point;
}

GpuLaunch shifted_launch(GemmProblem p, const ConvData& data, const PixelRuns& runs,
                         const ShiftedPoint& point, GpuLaunch::Argument images, const GpuTraits& traits) {
  const auto result = p.c;
  const int64_t tiles = tiles_of(p, data, runs, point);
  const int64_t multiplications = p.k * point.rows * point.vectors + 256;
  const int64_t each = tiles_of_group(traits, tiles, multiplications, traits.grain->shifted_work);
  Defines defines;
  defines.set("ROWS", point.rows)
      .set("VECTORS", point.vectors)
      .set("WIDTH", std::to_string(point.width))
      .set("TILES_EACH", each)
      .set("IMAGES", data.out[0])
      .set("CHANNELS", data.channels_in)
      .set("TAPS_H", data.taps.height)
      .set("TAPS_W", data.taps.width)
      .set("OUT_H", data.out[2])
      .set("OUT_W", data.out[3])
      .set("RESULT_FIRST", p.epilogue.first_place(result.start / static_cast<int64_t>(size_of(p.dtype))))
      .set("LINE", runs.line)
      .set("PHASE", runs.lines * runs.line)
      .set("FIRST_H", data.first.height - runs.rows.low)
      .set("FIRST_W", data.first.width - runs.columns.low)
      .set("TAP_H", data.tap.height)
      .set("TAP_W", data.tap.width)
      .set("STEP_H", data.step.height)
      .set("STEP_W", data.step.width)
      .set("IMAGE_N", runs.image)
      .set("IMAGE_GROUP", runs.channel * data.channels_in)
      .set("IMAGE_C", runs.channel)
      .set("WEIGHT_GROUP", p.a.batch)
      .set("WEIGHT_M", data.weight_m)
      .set("WEIGHT_C", data.weight_c)
      .set("WEIGHT_H", data.weight_tap.height)
      .set("WEIGHT_W", data.weight_tap.width);
  set_result(data, defines);
  p.matrices = {.text = defines.text()};
  std::vector<GpuLaunch::Argument> arguments{images, {p.a.buffer, p.a.start}};
  for (const Parameter& extra : p.epilogue.parameters()) arguments.push_back(extra.argument);
  arguments.push_back({result.buffer, result.start});
  return {.name = "conv_shifted",
          .source = gemm_prelude(p, true) + vectors_text(p.dtype, point.width) +
                    std::string(template_text("conv_shifts")) + std::string(template_text("conv_shifted")),
          .groups = {ceil_div(tiles, each), 1, 1},
          .group_size = {point.items, 1, 1},
          .arguments = std::move(arguments)};
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

GpuLaunch shifted_copy(const OperandDesc& image, const ShiftedCopy& copy, int buffer, GpuLaunch::Argument to,
                       const GpuTraits& traits) {
  const int64_t planes = image.shape[0] * image.shape[1];
  const int64_t items = traits.grain->items;
  const int64_t each = std::max<int64_t>(std::min(traits.grain->copied_elements / copy.plane(), planes), 1);
  Defines defines;
  defines.set_dtype("DTYPE", image.dtype)
      .set("INDEX", std::string_view("i32"))
      .set("PLANES", planes)
      .set("PLANES_EACH", each)
      .set("C", image.shape[1])
      .set("LINES", copy.lines)
      .set("LINE", copy.line)
      .set("LOW_H", copy.low.height)
      .set("LOW_W", copy.low.width)
      .set("STEP_H", copy.step.height)
      .set("STEP_W", copy.step.width);
  set_image(image, defines);
  return {.name = "conv_shifted_copy",
          .source = defines.text() + std::string(template_text("conv_shifted_copy")),
          // An item that is alone in its group copies whole planes.
          .groups = {items == 1 ? ceil_div(planes, each) : ceil_div(planes * copy.plane(), items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = {{buffer}, to}};
}

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
