// Gradients of convolutions by their weights by the tile engine: matrix products that sum over pixels. Images
// are read, or copied, as for convolutions (conv_tiles.cpp).
#include <numeric>

#include "athanor/kernels/gpu/templates/conv_channels_last.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tiled_conv.h"

namespace athanor::gpu {
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
  if (!has_conv_tiles(request.output().dtype, traits) || is_empty(conv.x) || is_empty(conv.w) ||
      is_empty(conv.y))
    return result;
  if (is_large(conv.x.size()) || is_large(conv.y.size())) return result;
  if (!epilogue_of_weights(request, conv).fits()) return result;
  const auto all = [](Pair pair, int64_t number) { return pair.height == number && pair.width == number; };
  const bool steps = all(conv.stride, 1) || request.inputs[0].strides[1] == 1;
  const bool pointwise = conv.w[2] * conv.w[3] == 1 && steps && all(conv.padding, 0);
  const Computed computed(request);
  if (request.prologue && !computed.any()) return result;
  constexpr size_t most = 3;
  if (pointwise || read_in_place(request.inputs[0], conv.w[1], computed))
    add_candidates(
        result,
        weight_products(request, conv, pointwise ? Images::pointwise : Images::in_place, computed, traits),
        traits, 2);
  add_candidates(result, weight_products(request, conv, Images::copied, computed, traits), traits,
                 most - result.size());
  return result;
}

}  // namespace athanor::gpu
