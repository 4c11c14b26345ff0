// conv2d, conv2d_input_grad and conv2d_weight_grad as matrix products, one for each group. Their elements are
// gathered from the images when they are needed (implicit GEMM).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/points.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tiled_conv.h"

namespace athanor::gpu {
namespace {

/// A candidate for each point that suits the largest part. It runs the parts one after another.
std::vector<GpuCandidate> candidates(const std::vector<GemmProblem>& parts, const GpuTraits& traits) {
  const GemmProblem& largest = *std::ranges::max_element(parts, {}, &GemmProblem::k);
  if (largest.batch * largest.m * largest.n == 0) return {{.name = "nothing"}};
  const auto all = [&](const auto& candidate_of) {
    GpuCandidate joined;
    for (GemmProblem part : parts) {
      if (part.m * part.n == 0) continue;
      part.scratch_start = joined.scratch_bytes;
      GpuCandidate one = candidate_of(part);
      if (joined.launches.empty() || part.k == largest.k) joined.name = "implicit " + one.name;
      if (joined.parameters.empty() || part.k == largest.k) joined.parameters = one.parameters;
      joined.scratch_bytes = std::max(joined.scratch_bytes, one.scratch_bytes);
      joined.launches.insert(joined.launches.end(), one.launches.begin(), one.launches.end());
    }
    if (parts.size() > 1) joined.name += fmt::format(" in {} phases", parts.size());
    return joined;
  };
  std::vector<GpuCandidate> result;
  if (largest.dtype != DType::f64 && largest.k > 0) {
    auto points = traits.grain->points->conv(largest, traits);
    std::erase_if(points, [&](const GemmPoint& point) { return !fits(largest, point, traits); });
    for (const GemmPoint& point : points)
      result.push_back(all([&](const GemmProblem& part) {
        return fits(part, point, traits) ? gemm_candidate(part, point)
                                         : traits.grain->points->plain_conv(part, traits);
      }));
  }
  if (result.empty() || largest.m < 4)
    result.push_back(
        all([&](const GemmProblem& part) { return traits.grain->points->plain_conv(part, traits); }));
  return result;
}

/// Each candidate is compiled and timed, so if there are tiles, only the best of the others is kept. `lead`:
/// whether tiles are the better guesses.
void add_tiled(std::vector<GpuCandidate>& others, std::vector<GpuCandidate> tiled, bool lead) {
  if (!tiled.empty() && others.size() > 1) others.resize(1);
  others.insert(lead ? others.begin() : others.end(), std::make_move_iterator(tiled.begin()),
                std::make_move_iterator(tiled.end()));
}

/// Whether only tiles compute the request as it is.
bool computed_by_tiles(const KernelRequest& request) {
  return request.compute == ComputeType::tf32 || has_further_results(request) || request.prologue.has_value();
}

std::vector<GpuCandidate> data_candidates(const KernelRequest& request, const ConvProblem& conv,
                                          bool gradient, const GpuTraits& traits) {
  const ConvData data(request, conv, gradient);
  const GemmProblem p = data_problem(request, data);
  const std::vector<ConvData> all = data.phases();
  // Phases without taps are cleared together, not element by element for each phase.
  const auto has_no_taps = [](const ConvData& phase) { return phase.taps.height * phase.taps.width == 0; };
  const bool zeros = !request.has_epilogue() && p.k * p.m * p.n > 0 && std::ranges::any_of(all, has_no_taps);
  std::vector<ConvData> phases, with_taps;
  std::vector<GemmProblem> parts, without_taps;
  for (const ConvData& phase : all) {
    const bool none = has_no_taps(phase);
    if (zeros && none) continue;
    phases.push_back(phase);
    parts.push_back(data_problem(request, phase));
    if (none)
      without_taps.push_back(parts.back());
    else
      with_taps.push_back(phase);
  }
  const auto clear = [&] {
    return zero_launch(p.dtype, request.output().shape.size(), {p.c.buffer}, traits);
  };
  if (parts.empty()) return {{.name = "zeros", .launches = {clear()}}};  // only padding was read
  const bool only_tiles = computed_by_tiles(request);
  auto result = only_tiles ? std::vector<GpuCandidate>() : candidates(parts, traits);
  if (p.batch * p.m * p.n * p.k == 0) return result;
  auto tiled = tile_candidates(request, with_taps, traits);
  if (has_further_results(request) && !without_taps.empty()) tiled.clear();
  for (GpuCandidate& candidate : tiled)  // the epilogue of 0
    for (const GemmProblem& part : without_taps)
      std::ranges::move(traits.grain->points->plain_conv(part, traits).launches,
                        std::back_inserter(candidate.launches));
  if (only_tiles)
    result = std::move(tiled);
  else
    add_tiled(result, std::move(tiled), tiles_lead(p.dtype, traits));
  if (!only_tiles) {
    for (const int64_t outputs : {4, 2}) {
      auto winograd = winograd_candidate(request, data, p, outputs, traits);
      if (!winograd) continue;
      const bool first =
          outputs == 4 && winograd_is_likely_faster(p.m, data.channels_in, data.out, p.dtype, traits);
      result.insert(first ? result.begin() : result.end(), std::move(*winograd));
    }
    if (request.output().dense())  // these write channels first
      std::ranges::move(shifted_candidates(phases, parts, traits), std::back_inserter(result));
  }
  if (zeros)
    for (GpuCandidate& candidate : result) candidate.launches.insert(candidate.launches.begin(), clear());
  return result;
}

}  // namespace

static Pair negative(Pair p) { return {-p.height, -p.width}; }

ConvData::ConvData(const KernelRequest& request, const ConvProblem& problem, bool is_gradient)
    : conv(problem),
      gradient(is_gradient),
      image(request.inputs[0]),
      weight(request.inputs[1]),
      out(request.output().shape),
      strides(request.output().strides),
      channels_in((gradient ? conv.y[1] : conv.x[1]) / conv.groups),
      channels_out((gradient ? conv.x[1] : conv.y[1]) / conv.groups),
      taps(conv.w[2], conv.w[3]),
      weight_m(weight.strides[gradient ? 1 : 0]),
      weight_c(weight.strides[gradient ? 0 : 1]),
      weight_tap(weight.strides[2], weight.strides[3]),
      step(gradient ? Pair(1) : conv.stride),
      first(gradient ? conv.padding : negative(conv.padding)),
      tap(gradient ? negative(conv.dilation) : conv.dilation),
      divisor(gradient ? conv.stride : Pair(1)) {}

namespace {

/// One axis of a phase: every divisor-th output from `phase` on.
struct PhaseAxis {
  int64_t outputs, taps = 0, first_tap = 0, tap_period = 1, first = 0, tap = 0;
  PhaseAxis(int64_t phase, int64_t extent, int64_t kernel, int64_t from, int64_t apart, int64_t divisor)
      : outputs(ceil_div(extent - phase, divisor)) {
    // The taps t for which phase + from + t * apart is a multiple of the divisor.
    tap_period = divisor / std::gcd(apart, divisor);
    while (first_tap < tap_period && (phase + from + first_tap * apart) % divisor != 0) ++first_tap;
    if (first_tap == tap_period || first_tap >= kernel) return;
    taps = ceil_div(kernel - first_tap, tap_period);
    first = (phase + from + first_tap * apart) / divisor;
    tap = tap_period * apart / divisor;
  }
};

}  // namespace

ResultEpilogue ConvData::epilogue(const KernelRequest& request) const {
  ResultEpilogue finish(request);
  finish.axes = {{channels_out, 1, 0, strides[1], channels_out * conv.groups}};
  return finish;
}

std::vector<ConvData> ConvData::phases() const {
  if (divisor.height == 1 && divisor.width == 1) return {*this};
  std::vector<ConvData> all;
  for (int64_t y = 0; y < std::min(divisor.height, out[2]); ++y)
    for (int64_t x = 0; x < std::min(divisor.width, out[3]); ++x) {
      const PhaseAxis rows(y, out[2], taps.height, first.height, tap.height, divisor.height);
      const PhaseAxis columns(x, out[3], taps.width, first.width, tap.width, divisor.width);
      ConvData phase = *this;
      phase.out = {out[0], out[1], rows.outputs, columns.outputs};
      phase.taps = {rows.taps, columns.taps};
      phase.weight_first = rows.first_tap * weight_tap.height + columns.first_tap * weight_tap.width;
      phase.weight_tap = {rows.tap_period * weight_tap.height, columns.tap_period * weight_tap.width};
      phase.first = {rows.first, columns.first};
      phase.tap = {rows.tap, columns.tap};
      phase.out_first = {y, x};
      phase.out_step = divisor;
      phase.divisor = 1;
      all.push_back(phase);
    }
  return all;
}

/// conv2d, or its gradient with respect to the images.
static std::vector<GpuCandidate> conv2d(const KernelRequest& request, const GpuTraits& traits) {
  const bool gradient = request.op->name == "conv2d_input_grad";
  const ConvProblem conv(gradient ? request.output().shape : request.inputs[0].shape, request.inputs[1].shape,
                         request.attrs);
  return data_candidates(request, conv, gradient, traits);
}

static std::vector<GpuCandidate> conv2d_weight_grad(const KernelRequest& request, const GpuTraits& traits) {
  const ConvProblem conv(request.inputs[0].shape, request.output().shape, request.attrs);
  if (computed_by_tiles(request)) return tile_candidates(request, conv, traits);
  const GemmProblem gathered = weight_problem(request, conv);
  auto result = candidates({gathered}, traits);
  add_tiled(result, tile_candidates(request, conv, traits), tiles_lead(request.output().dtype, traits));
  if (request.has_epilogue()) return result;
  for (const int64_t outputs : {4, 2})
    if (auto winograd = winograd_taps_candidate(request, conv, outputs, traits)) {
      const bool first = outputs == 4 && winograd_is_likely_faster(conv.y[1], conv.x[1], conv.y,
                                                                   request.output().dtype, traits);
      result.insert(first ? result.begin() : result.end(), std::move(*winograd));
    }
  if (!request.inputs[0].dense() || !request.inputs[1].dense()) return result;
  std::ranges::move(shifted_weight_candidates(request, conv, gathered, traits), std::back_inserter(result));
  if (!gathered.wide_index)
    std::ranges::move(tap_candidates(request, conv, traits), std::back_inserter(result));
  return result;
}

Layout layout_of_images(const TensorType& images, const GpuTraits& traits) {
  const auto chunk = static_cast<int64_t>(16 / size_of(images.dtype));
  const int64_t elements = images.shape.size();
  const bool has_tiles = elements > 0 && !is_large(elements);
  const bool by_tiles = has_conv_tiles(images.dtype, traits) && tiles_lead(images.dtype, traits);
  return {has_tiles && by_tiles && images.shape[1] % chunk == 0 ? Layout::all_channels : 0};
}

namespace {

/// Sums of products take vectors of channels. Weights, and images with few channels, stay row-major.
std::vector<Layout> layouts(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                            const GpuTraits& traits) {
  if (attrs.integer("groups") != 1) return {};
  return {layout_of_images(inputs[0], traits), {}, layout_of_images(output, traits)};
}

std::vector<Layout> layouts_of_weight_grad(std::span<const TensorType> inputs, const TensorType&,
                                           const Attrs& attrs, const GpuTraits& traits) {
  if (attrs.integer("groups") != 1) return {};
  return {layout_of_images(inputs[0], traits), layout_of_images(inputs[1], traits), {}};
}

[[maybe_unused]] const bool conv2d_registered = register_template({.ops = {"conv2d", "conv2d_input_grad"},
                                                                   .candidates = conv2d,
                                                                   .serves = serves_floats,
                                                                   .layouts = layouts,
                                                                   .tf32 = true,
                                                                   .finishes = true,
                                                                   .prologues = true});
[[maybe_unused]] const bool conv2d_weight_grad_registered =
    register_template({.ops = {"conv2d_weight_grad"},
                       .candidates = conv2d_weight_grad,
                       .serves = serves_floats,
                       .layouts = layouts_of_weight_grad,
                       .tf32 = true,
                       .finishes = true,
                       .prologues = true});

}  // namespace

}  // namespace athanor::gpu
