#include "athanor/kernels/gpu/templates/tiled_conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates/conv_channels_last.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {

Computed::Computed(const KernelRequest& request)
    : input_(request.prologue ? request.prologue->input : 0), how_(operand_prologue(request, "x_")) {
  // Weights are found by their place alone.
  if (!how_ || (input_ == 1 && request.op->name != "conv2d_weight_grad")) return;
  const OperandDesc& images = request.inputs[input_];
  how_->elements.axes = {{.row = 1, .stride = images.strides[1], .extent = images.shape[1]}};
}

void Computed::read_into(TileProblem::Matrix& matrix, size_t input) const {
  if ((*this)[input] != nullptr) matrix.read(*how_);
}

bool has_conv_tiles(DType type, const GpuTraits& traits) {
  return (type == DType::f32 || type == DType::f16 || type == DType::bf16) && !traits.lane_units.empty();
}

bool read_in_place(const OperandDesc& images, int64_t channels, const Computed& computed) {
  return images.strides[1] == 1 && computed[0] == nullptr &&
         padded_channels(channels, images.dtype) == channels;
}

TileProblem empty_product(const KernelRequest& request) {
  TileProblem p;
  p.input = p.output = request.output().dtype;
  p.tf32 = request.compute == ComputeType::tf32;
  p.c.memory.buffer = static_cast<int>(request.inputs.size());
  p.scratch_buffer = request.scratch_buffer();
  return p;
}

void add_candidates(std::vector<GpuCandidate>& result, const TiledConv& conv, const GpuTraits& traits,
                    size_t most) {
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

}  // namespace athanor::gpu
