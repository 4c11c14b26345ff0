// Convolutions by the tile engine: matrix products whose axes are pixels, and taps of channels (implicit
// GEMM). A vector of one pixel's channels is read at once, wherever a tap lies, if channels are last in
// memory. Images that lie so are read where they are, with zeros for the padding around them. Others are
// copied that way, with their padding, unless the kernel is 1 x 1.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>

#include "athanor/kernels/gpu/templates/conv_channels_last.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {
namespace {

/// The products of a convolution, and the launches that prepare them. `scratch`: bytes that those fill.
struct TiledConv {
  std::string name;
  std::vector<GpuLaunch> copies;
  std::vector<TileProblem> products;
  size_t scratch = 0;

  /// Takes scratch memory for this many elements.
  GpuLaunch::Argument take(int buffer, int64_t elements, DType type) {
    const GpuLaunch::Argument at{buffer, static_cast<int64_t>(scratch)};
    scratch = (scratch + static_cast<size_t>(elements) * size_of(type) + 255) / 256 * 256;
    return at;
  }
};

bool has_tiles(DType type, const GpuTraits& traits) {
  return (type == DType::f32 || type == DType::f16 || type == DType::bf16) && !traits.lane_units.empty();
}

/// What computes one of the two operands.
class Computed {
 public:
  explicit Computed(const KernelRequest& request)
      : input_(request.prologue ? request.prologue->input : 0), how_(operand_prologue(request, "x_")) {
    // Weights are found by their place alone.
    if (!how_ || (input_ == 1 && request.op->name != "conv2d_weight_grad")) return;
    const OperandDesc& images = request.inputs[input_];
    how_->elements.axes = {{.row = 1, .stride = images.strides[1], .extent = images.shape[1]}};
  }
  bool any() const { return how_.has_value(); }
  /// nullptr: it is in memory as it is.
  const OperandPrologue* operator[](size_t input) const { return how_ && input == input_ ? &*how_ : nullptr; }
  /// Has a matrix, whose memory begins at the operand's first element, compute its elements.
  void read_into(TileProblem::Matrix& matrix, size_t input) const {
    if ((*this)[input] != nullptr) matrix.read(*how_);
  }

 private:
  size_t input_;
  std::optional<OperandPrologue> how_;
};

TileProblem empty_product(const KernelRequest& request) {
  TileProblem p;
  p.input = p.output = request.output().dtype;
  p.tf32 = request.compute == ComputeType::tf32;
  p.c.memory.buffer = static_cast<int>(request.inputs.size());
  p.scratch_buffer = request.scratch_buffer();
  return p;
}

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
  if (from[1] != 1 || computed[0] != nullptr ||
      padded_channels(any.channels_in, request.output().dtype) != any.channels_in)
    return {};
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

/// Adds candidates for the first `most` points of the largest product that suit the others.
void add(std::vector<GpuCandidate>& result, const TiledConv& conv, const GpuTraits& traits, size_t most) {
  const TileProblem& largest = *std::ranges::max_element(conv.products, {}, &TileProblem::k);
  size_t added = 0;
  for (const TilePoint& point : tile_points(largest, traits)) {
    if (added == most) return;
    // The loop that adds parts of K needs a single product with the whole result.
    if (point.splits > 1 && conv.products.size() > 1 && largest.epilogue.has_further_results()) continue;
    std::vector<TilePoint> points;
    for (const TileProblem& product : conv.products) {
      points.push_back(point);
      if (product.k != largest.k) points.back().splits = 1;
      if (!fits(product, points.back(), traits)) break;
    }
    if (points.size() < conv.products.size() || !fits(conv.products.back(), points.back(), traits)) continue;
    GpuCandidate all = tile_candidate(conv.products, points, traits);
    all.name = conv.name + all.name;
    all.scratch_bytes = std::max(all.scratch_bytes, conv.scratch);
    all.launches.insert(all.launches.begin(), conv.copies.begin(), conv.copies.end());
    if (conv.products.size() > 1) all.name += fmt::format(" in {} phases", conv.products.size());
    result.push_back(std::move(all));
    ++added;
  }
}

}  // namespace

std::vector<GpuCandidate> tile_candidates(const KernelRequest& request, const std::vector<ConvData>& phases,
                                          const GpuTraits& traits) {
  std::vector<GpuCandidate> result;
  if (!has_tiles(request.output().dtype, traits) || phases.empty()) return result;
  if (!phases.front().epilogue(request).fits()) return result;
  if (is_large(phases.front().image.shape.size()) || is_large(request.output().shape.size())) return result;
  const Computed computed(request);
  if (request.prologue && !computed.any()) return result;
  constexpr size_t most = 3;
  if (phases.size() == 1)
    if (const auto direct = pointwise(request, phases.front(), computed)) add(result, *direct, traits, 2);
  if (result.empty())
    if (const auto direct = in_place(request, phases, computed, traits)) add(result, *direct, traits, 2);
  add(result, channels_last(request, phases, computed, traits), traits, most - result.size());
  return result;
}

namespace {

/// How the gradient by the weights reads images: those of a kernel of 1 x 1, others without their border, or
/// a copy with it.
enum class Images : uint8_t { pointwise, in_place, copied };

/// The products of the gradient by the weights.
TiledConv weight_products(const KernelRequest& request, const ConvProblem& conv, Images read,
                          const Computed& computed, const GpuTraits& traits) {
  const DType input = request.output().dtype;
  const OperandDesc &image = request.inputs[0], &gradient = request.inputs[1];
  const Ints &x = image.strides, &dy = gradient.strides;
  const int64_t images = conv.y[0], channels = conv.w[1], taps = conv.w[2] * conv.w[3];
  TileProblem p = empty_product(request);
  p.batch = conv.groups;
  p.m = conv.y[1] / conv.groups;
  p.k = images * conv.y[2] * conv.y[3];
  p.c.batch = p.m * channels * taps;
  p.c.row = {p.m, channels * taps};
  p.epilogue = epilogue_of_weights(request, conv);
  // Vectors of the gradient's pixels must not have pixels of two images.
  const auto chunk = static_cast<int64_t>(16 / size_of(input));
  // Tiles compute elements only where pixels are evenly apart.
  const bool whole = dy[1] == 1 || (conv.y[2] * conv.y[3] % chunk == 0 && computed[1] == nullptr);
  TiledConv made{.name = read != Images::copied && whole ? "implicit " : "channels last, "};
  const int scratch = p.scratch_buffer;
  if (whole) {
    p.a = {{1, 0},
           dy[1] * p.m,
           {p.m, dy[1]},
           TileAxis({{images, dy[0]}, {conv.y[2], dy[2]}, {conv.y[3], dy[3]}}),
           gradient.alignment};
    computed.read_into(p.a, 1);
  } else {
    const ChannelsLast copy{.images = gradient,
                            .groups = conv.groups,
                            .channels = padded_channels(p.m, input),
                            .low = 0,
                            .extent = {conv.y[2], conv.y[3]},
                            .type = input,
                            .computed = computed[1]};
    const GpuLaunch::Argument at = made.take(scratch, copy.elements(), input);
    made.copies.push_back(copy.launch({1, 0}, at, traits));
    p.a = {at, copy.channels, {p.m, 1}, {p.k, copy.column()}};
  }
  const TileAxis pixels(
      {{images, x[0]}, {conv.y[2], conv.stride.height * x[2]}, {conv.y[3], conv.stride.width * x[3]}});
  if (read == Images::pointwise) {
    p.n = channels;
    p.b = {{0, 0}, x[1] * channels, {channels, x[1]}, pixels, image.alignment};
    computed.read_into(p.b, 0);
    p.c.column = {channels, 1};
  } else if (read == Images::in_place) {
    const int64_t start = -conv.padding.height * x[2] - conv.padding.width * x[3];
    p.n = taps * channels;
    p.b = {{0, 0},
           channels,
           TileAxis({{conv.w[2], conv.dilation.height * x[2]},
                     {conv.w[3], conv.dilation.width * x[3]},
                     {channels, 1}}),
           pixels,
           std::gcd(start * static_cast<int64_t>(size_of(input)), image.alignment)};
    p.b.border = TileBorder{.outputs = {conv.y[2], conv.y[3]},
                            .step = conv.stride,
                            .first = {-conv.padding.height, -conv.padding.width},
                            .tap = conv.dilation,
                            .extent = {conv.x[2], conv.x[3]},
                            .taps = {conv.w[2], conv.w[3]},
                            .channels = channels,
                            .start = start,
                            .along_k = true};
    p.c.column = TileAxis({{taps, 1}, {channels, taps}});
  } else {
    const Pair skip{conv.w[2] == 1 ? conv.stride.height : 1, conv.w[3] == 1 ? conv.stride.width : 1};
    const auto extent = [](int64_t outputs, int64_t kernel, int64_t stride, int64_t dilation, int64_t every) {
      return ((outputs - 1) * stride + (kernel - 1) * dilation) / every + 1;
    };
    const ChannelsLast copy{
        .images = image,
        .groups = conv.groups,
        .channels = padded_channels(channels, input),
        .low = {-conv.padding.height, -conv.padding.width},
        .extent = {extent(conv.y[2], conv.w[2], conv.stride.height, conv.dilation.height, skip.height),
                   extent(conv.y[3], conv.w[3], conv.stride.width, conv.dilation.width, skip.width)},
        .step = skip,
        .type = input,
        .computed = computed[0]};
    const GpuLaunch::Argument at = made.take(scratch, copy.elements(), input);
    made.copies.push_back(copy.launch({0, 0}, at, traits));
    p.n = taps * copy.channels;
    p.b = {at, copy.channels,
           TileAxis({{conv.w[2], conv.dilation.height * copy.row()},
                     {conv.w[3], conv.dilation.width * copy.column()},
                     {copy.channels, 1}}),
           TileAxis({{images, copy.image()},
                     {conv.y[2], conv.stride.height / skip.height * copy.row()},
                     {conv.y[3], conv.stride.width / skip.width * copy.column()}})};
    p.c.column = TileAxis({{taps, 1}, {copy.channels, taps}});
    // A single channel, which has no digit of its own, is never padded.
    if (copy.channels > channels) p.c.column.store_only(channels);
  }
  p.scratch_start = made.scratch;
  made.products.push_back(std::move(p));
  return made;
}

}  // namespace

std::vector<GpuCandidate> tile_candidates(const KernelRequest& request, const ConvProblem& conv,
                                          const GpuTraits& traits) {
  std::vector<GpuCandidate> result;
  const auto is_empty = [](const Shape& shape) { return shape.size() == 0; };
  if (!has_tiles(request.output().dtype, traits) || is_empty(conv.x) || is_empty(conv.w) || is_empty(conv.y))
    return result;
  if (is_large(conv.x.size()) || is_large(conv.y.size())) return result;
  if (!epilogue_of_weights(request, conv).fits()) return result;
  const auto all = [](Pair pair, int64_t number) { return pair.height == number && pair.width == number; };
  const bool steps = all(conv.stride, 1) || request.inputs[0].strides[1] == 1;
  const bool pointwise = conv.w[2] * conv.w[3] == 1 && steps && all(conv.padding, 0);
  const Computed computed(request);
  if (request.prologue && !computed.any()) return result;
  constexpr size_t most = 3;
  const bool in_place = request.inputs[0].strides[1] == 1 && computed[0] == nullptr &&
                        padded_channels(conv.w[1], request.output().dtype) == conv.w[1];
  if (pointwise || in_place)
    add(result,
        weight_products(request, conv, pointwise ? Images::pointwise : Images::in_place, computed, traits),
        traits, 2);
  add(result, weight_products(request, conv, Images::copied, computed, traits), traits, most - result.size());
  return result;
}

}  // namespace athanor::gpu
