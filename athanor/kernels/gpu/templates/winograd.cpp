// Convolutions with kernels of 3 x 3 by Winograd's transforms: weights and patches of the images are
// transformed, multiplied point by point as a batch of matrices, and transformed back.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t winograd_floats = 3 << 20;  // 12 MiB

GpuLaunch launch(std::string name, std::string source, int64_t elements, int64_t items,
                 std::vector<GpuLaunch::Argument> arguments) {
  source += template_text(name);
  return {.name = std::move(name),
          .source = std::move(source),
          .groups = {ceil_div(elements, items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = std::move(arguments)};
}

}  // namespace

std::optional<GpuCandidate> winograd_candidate(const ConvData& data, const GemmProblem& p, int64_t outputs,
                                               const GpuTraits& traits) {
  const ConvProblem& conv = data.conv;
  const Pair one(1);
  const Ints ones = one.ints();
  const bool plain = conv.stride.ints() == ones && conv.dilation.ints() == ones && conv.groups == 1;
  if (!plain || conv.w[2] != 3 || conv.w[3] != 3 || p.dtype == DType::f64 || p.m < 8 || data.channels_in < 8)
    return {};
  const int64_t patch = outputs + 2, points = patch * patch, width = traits.is_cpu ? 16 : 1;
  const int64_t m = p.m, c = data.channels_in;
  const int64_t tiles_of_row = ceil_div(data.out[3], outputs);
  const int64_t tiles_of_image = ceil_div(data.out[2], outputs) * tiles_of_row;
  // As many images at a time as the last of a CPU's caches keeps between the steps.
  int64_t images = data.out[0];
  if (traits.is_cpu)
    while (images > 1 &&
           (data.out[0] % images != 0 || images * tiles_of_image * points * (m + c) > winograd_floats))
      --images;
  const int64_t tiles = images * tiles_of_image;
  if (points * std::max({m * c, c * tiles, m * tiles}) >= INT32_MAX) return {};

  GpuCandidate candidate{.name = fmt::format("winograd {}x{}", outputs, outputs)};
  const auto take = [&](int64_t floats) {
    const auto start = static_cast<int64_t>(candidate.scratch_bytes);
    candidate.scratch_bytes += static_cast<size_t>(ceil_div(floats * 4, 256) * 256);
    return GpuLaunch::Argument{p.scratch_buffer, start};
  };
  const GpuLaunch::Argument weights = take(points * m * c), patches = take(points * c * tiles),
                            products = take(points * m * tiles);

  // What the gradient's taps take in falling order, turned weights take in rising order.
  const Pair first = data.gradient ? Pair(data.first.height - 2, data.first.width - 2) : data.first;
  Defines defines;
  defines.set("OUTPUTS", outputs)
      .set("IMAGES", images)
      .set("C", c)
      .set("TURNED", data.gradient)
      .set("WEIGHT_M", data.weight_m)
      .set("WEIGHT_C", data.weight_c)
      .set("WEIGHT_H", data.weight.strides[2])
      .set("WEIGHT_W", data.weight.strides[3]);
  GemmProblem transformed = p;
  transformed.matrices = gather_text(data.image, conv.w, data.out, one, first, one, one, std::move(defines)) +
                         std::string(template_text("winograd"));
  const auto text = [&](int64_t lanes, bool bias) {
    return gemm_prelude(
        transformed, bias,
        Defines().set("WIDTH", std::to_string(lanes)).set("RUN_TILES", std::gcd(lanes, tiles_of_row)));
  };
  const int64_t items = traits.is_cpu ? 1 : 64;
  candidate.launches.push_back(
      launch("winograd_weights", text(1, false), m * c, 64, {{p.a.buffer}, weights}));
  GemmProblem product;
  product.dtype = DType::f32;
  product.batch = points;
  product.m = m, product.n = tiles, product.k = c;
  product.a = {weights.buffer, m * c, c, 1, weights.byte_offset};
  product.b = {patches.buffer, c * tiles, tiles, 1, patches.byte_offset};
  product.c = {products.buffer, m * tiles, tiles, 1, products.byte_offset};
  product.scratch_buffer = p.scratch_buffer;
  product.scratch_start = candidate.scratch_bytes;
  // Neither needs packing: both have just been written in the order they are read in.
  auto choices = gemm_points(product, traits);
  std::ranges::stable_partition(choices,
                                [](const GemmPoint& point) { return point.b == GemmSource::direct; });
  GpuCandidate gemm = gemm_candidate(product, choices.at(0));
  candidate.scratch_bytes = std::max(candidate.scratch_bytes, gemm.scratch_bytes);
  candidate.parameters = gemm.parameters;
  candidate.parameters["outputs"] = outputs;
  candidate.parameters["images"] = images;

  const auto size = static_cast<int64_t>(size_of(p.dtype));
  for (int64_t first_image = 0; first_image < data.out[0]; first_image += images) {
    const GpuLaunch::Argument from{p.b.buffer, first_image * data.image.strides[0] * size};
    candidate.launches.push_back(
        launch("winograd_input", text(width, false), c * ceil_div(tiles, width), items, {from, patches}));
    candidate.launches.insert(candidate.launches.end(), gemm.launches.begin(), gemm.launches.end());
    std::vector<GpuLaunch::Argument> arguments = {products};
    if (p.bias_buffer >= 0) arguments.push_back({p.bias_buffer});
    arguments.push_back({p.c.buffer, first_image * m * data.out[2] * data.out[3] * size});
    candidate.launches.push_back(launch("winograd_output", text(width, p.bias_buffer >= 0),
                                        m * ceil_div(tiles, width), items, std::move(arguments)));
  }
  return candidate;
}

}  // namespace athanor::gpu
