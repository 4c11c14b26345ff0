// Channels are blocked wherever they can be, so that the compiler has to place the fewest reorders.
#include "athanor/backends/cpu/onednn/layouts.h"

#include <algorithm>

#include "athanor/backends/cpu/onednn/onednn.h"
#include "athanor/ops/conv_kind.h"

namespace athanor::cpu {

std::vector<Layout> layouts_of_pool(const Op&, std::span<const TensorType> inputs, const TensorType& output,
                                    const Attrs&) {
  const int block = onednn_block();
  if (block == 0 || !onednn_supports(output.dtype) || output.shape[1] % block != 0) return {};
  return std::vector<Layout>(inputs.size() + 1, Layout{block});
}

// An input with few channels (an image) stays row-major: oneDNN's first-layer kernels read that.
std::vector<Layout> layouts_of_conv(const Op& op, std::span<const TensorType> inputs,
                                    const TensorType& output, const Attrs& attrs) {
  const int block = onednn_block();
  if (block == 0 || !onednn_supports(output.dtype)) return {};
  std::vector<Layout> layouts(inputs.size() + 1);
  // Which operands are activations. Weights, biases and weight gradients stay row-major.
  const bool weight_grad = conv_kind(op) == ConvKind::weight_grad;
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

namespace {

// Athanor's own kernels take these layouts too, between convolutions.
[[maybe_unused]] const bool pool_layouts_registered =
    register_kernels({.source = KernelSource::library,
                      .ops = {"max_pool2d", "max_pool2d_grad", "avg_pool2d_grad"},
                      .candidates = nullptr,
                      .serves = serves_none,
                      .layouts = layouts_of_pool});

}  // namespace
}  // namespace athanor::cpu
