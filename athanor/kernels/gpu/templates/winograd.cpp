// Convolutions with 3 x 3 kernels by Winograd's transforms: weights and patches of the images are
// transformed, multiplied point by point as a batch of matrices, and transformed back.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/conv_gather.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {
namespace {

GpuLaunch launch(std::string name, std::string source, int64_t elements, int64_t items,
                 std::vector<GpuLaunch::Argument> arguments) {
  return {.name = std::move(name),
          .source = std::move(source),
          .groups = {ceil_div(elements, items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = std::move(arguments)};
}

bool applies(const ConvProblem& conv, DType dtype, int64_t m, int64_t c) {
  const Ints ones{1, 1};
  return conv.stride.ints() == ones && conv.dilation.ints() == ones && conv.groups == 1 && conv.w[2] == 3 &&
         conv.w[3] == 3 && dtype != DType::f64 && m >= 8 && c >= 8;
}

// Scratch memory for floats, assigned part after part.
GpuLaunch::Argument take(GpuCandidate& candidate, int buffer, int64_t floats) {
  const auto start = static_cast<int64_t>(candidate.scratch_bytes);
  candidate.scratch_bytes += static_cast<size_t>(ceil_div(floats * 4, 256) * 256);
  return {buffer, start};
}

bool has_channels_last(const OperandDesc& images, const GpuTraits& traits) {
  return images.channels_last() && traits.grain->width == 1;
}

/// A matrix of a product whose rows are channels, or tiles: a batch with a matrix for each point.
GemmProblem::Operand of_points(const GpuLaunch::Argument& memory, const WinogradOrder& order, bool of_tiles) {
  GemmProblem::Operand matrix{memory.buffer, order.channels * order.tiles, order.of_channel(),
                              order.of_tile(), memory.byte_offset};
  if (of_tiles) std::swap(matrix.row, matrix.column);
  return matrix;
}

/// The best guess for the product, if the device has room for one.
std::optional<GpuCandidate> best_product(const GemmProblem& product, GemmSource b, const GpuTraits& traits) {
  if (tiles_lead(DType::f32, traits)) {
    const TileProblem tiled(product);
    for (const TilePoint& point : tile_points(tiled, traits))
      if (point.splits == 1 || fits(tiled, point, traits)) return tile_candidate({tiled}, {point}, traits);
  }
  // No more packing than necessary: both matrices have just been written in the order in which they are read.
  auto choices = gemm_points(product, traits);
  std::ranges::stable_partition(choices, [&](const GemmPoint& point) { return point.b == b; });
  if (choices.empty()) return {};
  return gemm_candidate(product, choices.front());
}

/// The product for each point; its scratch memory comes after what the candidate already has.
std::optional<GpuCandidate> product_of(GemmProblem product, GemmSource b, GpuCandidate& candidate,
                                       const GpuTraits& traits) {
  product.scratch_start = candidate.scratch_bytes;
  auto made = best_product(product, b, traits);
  if (!made) return {};
  candidate.scratch_bytes = std::max(candidate.scratch_bytes, made->scratch_bytes);
  candidate.parameters = made->parameters;
  return made;
}

}  // namespace

std::optional<GpuCandidate> winograd_candidate(const KernelRequest& request, const ConvData& data,
                                               const GemmProblem& p, int64_t outputs,
                                               const GpuTraits& traits) {
  const int64_t m = p.m, c = data.channels_in;
  if (!applies(data.conv, p.dtype, m, c)) return {};
  if (!request.output().dense() && !has_channels_last(request.output(), traits)) return {};
  const WinogradTiles tiles(outputs, data.out, m + c, *traits.grain);
  if (tiles.points * std::max({m * c, c * tiles.count, m * tiles.count}) >= INT32_MAX) return {};

  GpuCandidate candidate{.name = fmt::format("winograd {}x{}", outputs, outputs), .fewer_products = true};
  const auto weights = take(candidate, p.scratch_buffer, tiles.points * m * c),
             patches = take(candidate, p.scratch_buffer, tiles.points * c * tiles.count),
             products = take(candidate, p.scratch_buffer, tiles.points * m * tiles.count);

  const int64_t items = traits.grain->items, width = traits.grain->width,
                chunks = traits.grain->winograd_chunks;
  const WinogradOrder taken{tiles.count, c, has_channels_last(data.image, traits)},
      given{tiles.count, m, has_channels_last(request.output(), traits)};
  // The gradient takes its taps in falling order; weights turned by 180 degrees take them in rising order.
  const Pair one(1), first = data.gradient ? Pair(data.first.height - 2, data.first.width - 2) : data.first;
  const int64_t neighbours = std::gcd(m * c, width);
  candidate.launches.push_back(launch("winograd_weights",
                                      winograd_weights(outputs, data, p.dtype, neighbours, chunks),
                                      ceil_div(m * c, neighbours * chunks), items, {{p.a.buffer}, weights}));
  GemmProblem product;
  product.batch = tiles.points;
  product.m = m, product.n = tiles.count, product.k = c;
  product.a = {weights.buffer, m * c, c, 1, weights.byte_offset};
  product.b = of_points(patches, taken, false);
  product.c = of_points(products, given, false);
  product.scratch_buffer = p.scratch_buffer;
  if (given.channels_last) product = product.transposed();  // its rows are tiles, with channels side by side
  const auto gemm = product_of(product, GemmSource::direct, candidate, traits);
  if (!gemm) return {};
  candidate.parameters["outputs"] = outputs;
  candidate.parameters["images"] = tiles.images;

  const bool inside = gathers_inside(data.image, data.taps, data.out, one, first, one, outputs);
  const std::string input = winograd_input(
      tiles, {data.image, p.dtype, first, c, false, inside, taken.channels_last}, width, chunks);
  const auto size = static_cast<int64_t>(size_of(p.dtype));
  for (int64_t first_image = 0; first_image < data.out[0]; first_image += tiles.images) {
    const GpuLaunch::Argument from{p.b.buffer, first_image * data.image.strides[0] * size};
    candidate.launches.push_back(launch(
        "winograd_input", input, ceil_div(c * ceil_div(tiles.count, width), chunks), items, {from, patches}));
    candidate.launches.insert(candidate.launches.end(), gemm->launches.begin(), gemm->launches.end());
    const int64_t first_result = first_image * m * data.out[2] * data.out[3];
    const std::vector<Parameter> parameters =
        gemm_parameters({{"products", "const f32", products}}, p, true,
                        {"y", stored(p.dtype), {p.c.buffer, first_result * size}});
    candidate.launches.push_back(
        launch("winograd_output",
               winograd_output(tiles, p, parameters, p.epilogue.first_place(first_result),
                               given.channels_last, width, chunks),
               ceil_div(m * ceil_div(tiles.count, width), chunks), items, arguments_of(parameters)));
  }
  return candidate;
}

std::optional<GpuCandidate> winograd_taps_candidate(const KernelRequest& request, const ConvProblem& conv,
                                                    int64_t outputs, const GpuTraits& traits) {
  const DType dtype = request.output().dtype;
  const int64_t m = conv.y[1], c = conv.x[1];
  if (!applies(conv, dtype, m, c) || conv.y.size() == 0) return {};
  const WinogradTiles tiles(outputs, conv.y, m + c, *traits.grain);
  const int64_t parts = conv.y[0] / tiles.images;
  if (tiles.points * std::max({parts * m * c, c * tiles.count, m * tiles.count}) >= INT32_MAX) return {};

  constexpr int scratch_buffer = 3;
  GpuCandidate candidate{.name = fmt::format("winograd 3x3 of {}x{}", outputs, outputs),
                         .fewer_products = true};
  const auto patches = take(candidate, scratch_buffer, tiles.points * c * tiles.count),
             gradients = take(candidate, scratch_buffer, tiles.points * m * tiles.count),
             sums = take(candidate, scratch_buffer, parts * tiles.points * m * c);
  const int64_t items = traits.grain->items, width = traits.grain->width,
                chunks = traits.grain->winograd_chunks;
  const auto order = [&](bool gradient) {
    return WinogradOrder{tiles.count, gradient ? m : c,
                         has_channels_last(request.inputs[gradient ? 1 : 0], traits)};
  };
  // Of the images or of the result's gradient.
  const auto input = [&](bool gradient) {
    const Pair first = gradient ? Pair(0) : Pair(-conv.padding.height, -conv.padding.width);
    const OperandDesc& images = request.inputs[gradient ? 1 : 0];
    const bool inside = gathers_inside(images, Pair(3), conv.y, Pair(1), first, Pair(1), outputs);
    return winograd_input(
        tiles, {images, dtype, first, gradient ? m : c, gradient, inside, order(gradient).channels_last},
        width, chunks);
  };
  GemmProblem product;
  product.batch = tiles.points;
  product.m = m, product.n = c, product.k = tiles.count;
  product.a = of_points(gradients, order(true), false);
  product.b = of_points(patches, order(false), true);
  product.c = {sums.buffer, m * c, c, 1, sums.byte_offset};
  product.scratch_buffer = scratch_buffer;
  const size_t before_product = candidate.scratch_bytes;
  const auto size = static_cast<int64_t>(size_of(dtype));
  for (int64_t part = 0; part < parts; ++part) {
    for (const bool gradient : {false, true}) {
      const int buffer = gradient ? 1 : 0;
      const GpuLaunch::Argument from{
          buffer, part * tiles.images * request.inputs[static_cast<size_t>(buffer)].strides[0] * size};
      candidate.launches.push_back(launch("winograd_input", input(gradient),
                                          ceil_div((gradient ? m : c) * ceil_div(tiles.count, width), chunks),
                                          items, {from, gradient ? gradients : patches}));
    }
    product.c.start = sums.byte_offset + part * tiles.points * m * c * 4;
    GpuCandidate placed{.scratch_bytes = before_product};
    const auto gemm = product_of(product, GemmSource::packed, placed, traits);
    if (!gemm) return {};
    candidate.scratch_bytes = std::max(candidate.scratch_bytes, placed.scratch_bytes);
    candidate.parameters = placed.parameters;
    candidate.launches.insert(candidate.launches.end(), gemm->launches.begin(), gemm->launches.end());
  }
  candidate.parameters["outputs"] = outputs;
  candidate.parameters["images"] = tiles.images;
  const int64_t neighbours = std::gcd(m * c, width);
  candidate.launches.push_back(launch("winograd_taps",
                                      winograd_taps(outputs, dtype, m, c, parts, neighbours, chunks),
                                      ceil_div(m * c, neighbours * chunks), items, {sums, {2}}));
  return candidate;
}

bool winograd_is_likely_faster(int64_t m, int64_t c, const Shape& out, DType dtype, const GpuTraits& traits) {
  if (dtype != DType::f32) return false;  // 16-bit floats have matrix units, or are widened for each product
  const WinogradTiles tiles(4, out, m + c, *traits.grain);
  const auto pixels = static_cast<double>(out[2] * out[3]),
             points = static_cast<double>(tiles.count * tiles.points) / static_cast<double>(tiles.images);
  const auto products = static_cast<double>(m * c), channels = static_cast<double>(m + c);
  // A point of a transform takes about 8 operations, and is written and read as a float. All images share the
  // weights.
  const double weights = static_cast<double>(tiles.points) * products / static_cast<double>(out[0]);
  const double transforms = (points * channels + weights) * (8 + 8 * traits.grain->flops_per_byte);
  return points * 2 * products + transforms < 0.8 * (9 * 2 * products * pixels);
}

}  // namespace athanor::gpu
