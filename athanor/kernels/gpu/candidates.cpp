#include <fmt/format.h>

#include <algorithm>

#include <map>

#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor {
namespace {

using Maker = std::vector<GpuCandidate> (*)(const KernelRequest&, const GpuTraits&);

Maker maker_of(const Op& op) {
  switch (op.prim) {
    case Prim::batch_matmul:
      return gpu::matmul;
    case Prim::pad:
      return gpu::pad;
    case Prim::concat:
      return gpu::concat;
    case Prim::fold:
      return gpu::fold;
    case Prim::take_along:
      return gpu::take_along;
    case Prim::scatter_add:
      return gpu::scatter_add;
    case Prim::cumsum:
      return gpu::cumsum;
    case Prim::argsort:
      return gpu::argsort;
    default:
      break;
  }
  // Composite ops that a dedicated kernel makes faster.
  static const std::map<std::string_view, Maker> composites = {
      {"conv2d", gpu::conv2d},
      {"conv2d_input_grad", gpu::conv2d_input_grad},
      {"conv2d_weight_grad", gpu::conv2d_weight_grad},
      {"max_pool2d", gpu::pool2d},
      {"avg_pool2d", gpu::pool2d},
      {"max_pool2d_grad", gpu::pool2d_grad},
      {"avg_pool2d_grad", gpu::pool2d_grad},
      {"scaled_dot_product_attention", gpu::attention},
      {"attention_lse", gpu::attention},
      {"attention_grad_q", gpu::attention},
      {"attention_grad_k", gpu::attention},
      {"attention_grad_v", gpu::attention},
  };
  const auto found = composites.find(op.name);
  return found == composites.end() ? nullptr : found->second;
}

}  // namespace

std::vector<GpuCandidate> gpu_candidates(const KernelRequest& request, const GpuTraits& traits) {
  const Maker make = maker_of(*request.op);
  if (make == nullptr) return {};
  const auto needs_f64 = [](const OperandDesc& operand) { return operand.dtype == DType::f64; };
  if (!traits.f64 && (needs_f64(request.output) || std::ranges::any_of(request.inputs, needs_f64)))
    throw Error(ErrorCode::device, fmt::format("{}: this device has no f64 arithmetic", request.op->name), {},
                "Use f32, or another device");
  return make(request, traits);
}

bool gpu_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                    const Attrs&) {
  const Maker make = maker_of(op);
  // For no keys or no features, the decomposition gives the right result.
  const auto empty = [](const TensorType& type) { return type.shape.size() == 0; };
  if (make == gpu::attention && output.shape.size() > 0 && std::ranges::any_of(inputs, empty)) return false;
  return make != nullptr && (op.prim != Prim::none || is_float(output.dtype));
}

}  // namespace athanor
