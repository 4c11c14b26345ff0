// Convolutions and their gradients by images by the tile engine: matrix products whose axes are pixels, and
// taps of channels (implicit GEMM). A vector of one pixel's channels is read at once, wherever a tap lies, if
// channels are last in memory. Images that lie so are read where they are, with zeros for the padding around
// them. Others are copied that way, with their padding, unless the kernel is 1 x 1.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "athanor/kernels/gpu/templates/conv_channels_last.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tiled_conv.h"

namespace athanor::gpu {
namespace {

/// The product with its result, but without the images and weights that it reads.
TileProblem data_product(const KernelRequest& request, const ConvData& data) {
  TileProblem p = empty_product(request);
  p.batch = data.conv.groups;
  p.m = data.channels_out;
  p.n = data.out[0] * data.out[2] * data.out[3];
  p.c.memory.byte_offset = data.first_result() * static_cast<int64_t>(size_of(p.output));
  p.c.batch = data.channels_out * data.strides[1];
  p.c.row = {p.m, data.strides[1]};
  p.c.column = TileAxis({{data.out[0], data.strides[0]},
                         {data.out[2], data.out_step.height * data.strides[2]},
                         {data.out[3], data.out_step.width * data.strides[3]}});
  p.epilogue = data.epilogue(request);
  return p;
}

int64_t group_of_weights(const ConvData& data) {
  return data.weight.strides[0] * (data.conv.w[0] / data.conv.groups);
}

/// 1 x 1, with stride 1 or with channels last: nothing is copied.
std::optional<TiledConv> pointwise(const KernelRequest& request, const ConvData& data,
                                   const Computed& computed) {
  if (data.taps.height * data.taps.width != 1) return {};
  if (data.weight_first != 0 && computed[1] != nullptr) return {};
  const bool skips = data.image.strides[1] == 1;
  for (const auto& [step, first, divisor, outputs, extent] :
       {std::array{data.step.height, data.first.height, data.divisor.height, data.out[2],
                   data.image.shape[2]},
        std::array{data.step.width, data.first.width, data.divisor.width, data.out[3], data.image.shape[3]}})
    if ((step != 1 && !skips) || first != 0 || divisor != 1 || (outputs - 1) * step >= extent) return {};
  TileProblem p = data_product(request, data);
  const Ints& from = data.image.strides;
  p.k = data.channels_in;
  const int64_t start = data.weight_first * static_cast<int64_t>(size_of(data.weight.dtype));
  p.a = {{1, start},
         group_of_weights(data),
         {p.m, data.weight_m},
         {p.k, data.weight_c},
         std::gcd(start, data.weight.alignment)};
  p.b = {{0, 0},
         from[1] * p.k,
         TileAxis({{data.out[0], from[0]},
                   {data.out[2], data.step.height * from[2]},
                   {data.out[3], data.step.width * from[3]}}),
         {p.k, from[1]},
         data.image.alignment};
  computed.read_into(p.a, 1);
  computed.read_into(p.b, 0);
  return TiledConv{.name = "implicit ", .products = {std::move(p)}};
}

/// Where a phase's taps lie, in the order in which they lie in the image.
struct OrderedTaps {
  Pair tap, first, weight;  // weight: the distance between taps of the weights
  int64_t first_weight;
  explicit OrderedTaps(const ConvData& phase)
      : tap(phase.tap), first(phase.first), weight(phase.weight_tap), first_weight(phase.weight_first) {
    order(tap.height, first.height, weight.height, phase.taps.height);
    order(tap.width, first.width, weight.width, phase.taps.width);
  }

 private:
  void order(int64_t& tap_of, int64_t& first_of, int64_t& weight_of, int64_t taps) {
    if (tap_of >= 0) return;
    first_of += tap_of * (taps - 1), tap_of = -tap_of;
    first_weight += (taps - 1) * weight_of, weight_of = -weight_of;
  }
};

/// The product with its result and weights, which a launch brings into the order of the taps.
TileProblem with_packed_weights(TiledConv& made, const KernelRequest& request, const ConvData& phase,
                                const OrderedTaps& taps, int64_t channels, const Computed& computed,
                                const GpuTraits& traits) {
  TileProblem p = data_product(request, phase);
  const PackedWeights packed{.groups = phase.conv.groups,
                             .m = p.m,
                             .taps = phase.taps,
                             .channels = phase.channels_in,
                             .padded = channels,
                             .first = taps.first_weight,
                             .group_stride = group_of_weights(phase),
                             .m_stride = phase.weight_m,
                             .tap_stride = taps.weight,
                             .channel_stride = phase.weight_c,
                             .from = phase.weight.dtype,
                             .type = p.input,
                             .computed = computed[1]};
  const GpuLaunch::Argument weights = made.take(p.scratch_buffer, packed.elements(), p.input);
  made.copies.push_back(packed.launch({1, 0}, weights, traits));
  p.k = packed.k();
  p.a = {weights, p.m * p.k, {p.m, p.k}, {p.k, 1}};
  return p;
}

/// Images are read where they lie, with channels last, and their border is not in memory.
std::optional<TiledConv> in_place(const KernelRequest& request, const std::vector<ConvData>& phases,
                                  const Computed& computed, const GpuTraits& traits) {
  const ConvData& any = phases.front();
  const Ints& from = any.image.strides;
  if (!read_in_place(any.image, any.channels_in, computed)) return {};
  TiledConv made{.name = "implicit "};
  for (const ConvData& phase : phases) {
    const OrderedTaps taps(phase);
    TileProblem p = with_packed_weights(made, request, phase, taps, any.channels_in, computed, traits);
    const int64_t start = taps.first.height * from[2] + taps.first.width * from[3];
    p.b = {{0, 0},
           any.channels_in,
           TileAxis({{phase.out[0], from[0]},
                     {phase.out[2], phase.step.height * from[2]},
                     {phase.out[3], phase.step.width * from[3]}}),
           TileAxis({{phase.taps.height, taps.tap.height * from[2]},
                     {phase.taps.width, taps.tap.width * from[3]},
                     {any.channels_in, 1}}),
           std::gcd(start * static_cast<int64_t>(size_of(p.input)), any.image.alignment)};
    p.b.border = TileBorder{.outputs = {phase.out[2], phase.out[3]},
                            .step = phase.step,
                            .first = taps.first,
                            .tap = taps.tap,
                            .extent = {any.image.shape[2], any.image.shape[3]},
                            .taps = phase.taps,
                            .channels = any.channels_in,
                            .start = start};
    made.products.push_back(std::move(p));
  }
  for (TileProblem& p : made.products) p.scratch_start = made.scratch;
  return made;
}

/// The part of an image's axis that several phases read.
struct Window {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t outputs, int64_t taps, int64_t step, int64_t first, int64_t tap) {
    low = std::min(low, first + std::min<int64_t>(tap * (taps - 1), 0));
    high = std::max(high, (outputs - 1) * step + first + std::max<int64_t>(tap * (taps - 1), 0));
  }
};

TiledConv channels_last(const KernelRequest& request, const std::vector<ConvData>& phases,
                        const Computed& computed, const GpuTraits& traits) {
  const DType input = request.output().dtype;
  const ConvData& any = phases.front();
  Window rows, columns;
  for (const ConvData& phase : phases) {
    rows.add(phase.out[2], phase.taps.height, phase.step.height, phase.first.height, phase.tap.height);
    columns.add(phase.out[3], phase.taps.width, phase.step.width, phase.first.width, phase.tap.width);
  }
  // With a single tap, skipped elements are not copied.
  const bool single = phases.size() == 1;
  const Pair skip{single && any.taps.height == 1 ? any.step.height : 1,
                  single && any.taps.width == 1 ? any.step.width : 1};
  TiledConv made{.name = "channels last, "};
  const ChannelsLast copy{
      .images = any.image,
      .groups = any.conv.groups,
      .channels = padded_channels(any.channels_in, input),
      .low = {rows.low, columns.low},
      .extent = {(rows.high - rows.low) / skip.height + 1, (columns.high - columns.low) / skip.width + 1},
      .step = skip,
      .type = input,
      .computed = computed[0]};
  const int scratch = request.scratch_buffer();
  const GpuLaunch::Argument images = made.take(scratch, copy.elements(), input);
  made.copies.push_back(copy.launch({0, 0}, images, traits));
  const auto size = static_cast<int64_t>(size_of(input));
  for (const ConvData& phase : phases) {
    const OrderedTaps taps(phase);
    TileProblem p = with_packed_weights(made, request, phase, taps, copy.channels, computed, traits);
    const int64_t start =
        ((taps.first.height - rows.low) * copy.row() + (taps.first.width - columns.low) * copy.column()) *
        size;
    p.b = {{images.buffer, images.byte_offset + start},
           copy.channels,
           TileAxis({{phase.out[0], copy.image()},
                     {phase.out[2], phase.step.height / skip.height * copy.row()},
                     {phase.out[3], phase.step.width / skip.width * copy.column()}}),
           TileAxis({{phase.taps.height, taps.tap.height * copy.row()},
                     {phase.taps.width, taps.tap.width * copy.column()},
                     {copy.channels, 1}}),
           std::gcd<int64_t>(start, OperandDesc::whole_vectors)};
    made.products.push_back(std::move(p));
  }
  for (TileProblem& p : made.products) p.scratch_start = made.scratch;
  return made;
}

}  // namespace

std::vector<GpuCandidate> tile_candidates(const KernelRequest& request, const std::vector<ConvData>& phases,
                                          const GpuTraits& traits) {
  std::vector<GpuCandidate> result;
  if (!has_conv_tiles(request.output().dtype, traits) || phases.empty()) return result;
  if (!phases.front().epilogue(request).fits()) return result;
  if (is_large(phases.front().image.shape.size()) || is_large(request.output().shape.size())) return result;
  const Computed computed(request);
  if (request.prologue && !computed.any()) return result;
  constexpr size_t most = 3;
  if (phases.size() == 1)
    if (const auto direct = pointwise(request, phases.front(), computed))
      add_candidates(result, *direct, traits, 2);
  if (result.empty())
    if (const auto direct = in_place(request, phases, computed, traits))
      add_candidates(result, *direct, traits, 2);
  add_candidates(result, channels_last(request, phases, computed, traits), traits, most - result.size());
  return result;
}

}  // namespace athanor::gpu
