#include "athanor/backends/cpu/onednn/candidates.h"

#include <algorithm>

#include "athanor/backends/cpu/onednn/onednn.h"
#include "athanor/backends/cpu/openmp.h"
#include "athanor/base/threads.h"

namespace athanor::cpu {
namespace {

bool is_conv(const Op& op) {
  return op.name == "conv2d" || op.name == "conv2d_input_grad" || op.name == "conv2d_weight_grad";
}

bool is_pool(const Op& op) { return op.name.starts_with("max_pool2d") || op.name.starts_with("avg_pool2d"); }

bool usable(const OperandDesc& operand, DType dtype) {
  return operand.dtype == dtype && operand.shape.size() > 0;
}

}  // namespace

std::vector<Candidate> onednn_candidates(const KernelRequest& request) {
  const DType dtype = request.output.dtype;
  const auto fits = [&](const OperandDesc& operand) { return usable(operand, dtype); };
  if (!onednn_supports(dtype) || !fits(request.output) || !std::ranges::all_of(request.inputs, fits))
    return {};
  use_openmp_threads(cpu_threads());  // primitives are made for a number of threads
  const Op& op = *request.op;
  if (op.prim == Prim::batch_matmul) return onednn_matmul(request);
  if (is_conv(op)) return onednn_conv(request);
  if (op.name == "avg_pool2d") return onednn_pool(request);
  return {};
}

bool onednn_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                       const Attrs&) {
  const auto fits = [&](const TensorType& type) {
    return type.dtype == output.dtype && type.shape.size() > 0;
  };
  return is_conv(op) && onednn_supports(output.dtype) && fits(output) && std::ranges::all_of(inputs, fits);
}

// Channels are blocked if both sides of the op can be: then the compiler has to place the fewest reorders. An
// input with few channels (an image) stays row-major: oneDNN's first-layer kernels read that.
std::vector<Layout> onednn_preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                             const TensorType& output, const Attrs& attrs) {
  const int block = onednn_block();
  if (block == 0 || !onednn_supports(output.dtype) || !(is_conv(op) || is_pool(op))) return {};
  std::vector<Layout> layouts(inputs.size() + 1);
  if (is_pool(op)) {
    if (output.shape[1] % block != 0) return {};
    std::ranges::fill(layouts, Layout{block});
    return layouts;
  }
  // Which operands are activations. Weights, biases and weight gradients stay row-major.
  const bool weight_grad = op.name == "conv2d_weight_grad";
  const size_t second = weight_grad ? 1 : inputs.size();
  const Shape& first_shape = inputs[0].shape;
  const Shape& second_shape = weight_grad ? inputs[1].shape : output.shape;
  const int64_t groups = attrs.integer("groups");
  const bool depthwise = groups > 1 && first_shape[1] == groups && second_shape[1] == groups;
  const int64_t unit = groups == 1 || depthwise ? block : groups * block;
  const bool first = first_shape[1] % unit == 0, other = second_shape[1] % unit == 0;
  if (groups > 1 && !(first && other)) return {};
  if (first) layouts[0] = {block};
  if (other) layouts[second] = {block};
  return layouts;
}

}  // namespace athanor::cpu
