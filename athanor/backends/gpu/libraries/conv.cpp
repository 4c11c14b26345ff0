#include "athanor/backends/gpu/libraries/conv.h"

#include <algorithm>

#include "athanor/ops/conv_kind.h"

namespace athanor::gpu {
namespace {

std::optional<LibraryConv::Tensor> tensor_of(const OperandDesc& operand, int buffer) {
  LibraryConv::Tensor tensor{.buffer = buffer};
  if (operand.shape.rank() != 4 || operand.layout.block != 0 || operand.shape.size() > INT32_MAX) return {};
  for (int axis = 0; axis < 4; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t extent = operand.shape[axis], stride = operand.strides[i];
    if (extent > 1 && (stride <= 0 || stride > INT32_MAX)) return {};
    tensor.extents[i] = static_cast<int>(extent);
    // A stride along one element may be anything; libraries expect the stride of a dense tensor.
    tensor.strides[i] = static_cast<int>(extent > 1 ? stride : contiguous_strides(operand.shape)[i]);
  }
  return tensor;
}

std::array<int, 2> pair_of(const KernelRequest& request, const char* name) {
  const Ints values = request.attrs.ints(name);
  return {static_cast<int>(values[0]), static_cast<int>(values[1])};
}

}  // namespace

std::optional<LibraryConv> library_conv(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (request.inputs.size() != 2 || request.has_epilogue() ||
      std::ranges::any_of(request.inputs, [&](const OperandDesc& x) { return x.dtype != dtype; }))
    return {};
  const auto first = tensor_of(request.inputs[0], 0), second = tensor_of(request.inputs[1], 1),
             result = tensor_of(request.output(), 2);
  if (!first || !second || !result) return {};
  LibraryConv conv;
  const OperandDesc* weights = &request.inputs[1];
  switch (conv_kind(*request.op)) {
    case ConvKind::result:
      conv.x = *first, conv.w = *second, conv.y = *result;
      break;
    case ConvKind::input_grad:
      conv.computes = LibraryConv::Computes::x;
      conv.y = *first, conv.w = *second, conv.x = *result;
      break;
    case ConvKind::weight_grad:
      conv.computes = LibraryConv::Computes::w;
      conv.x = *first, conv.y = *second, conv.w = *result;
      weights = &request.output();
      break;
  }
  if (!weights->dense()) return {};
  conv.padding = pair_of(request, "padding");
  conv.stride = pair_of(request, "stride");
  conv.dilation = pair_of(request, "dilation");
  conv.groups = static_cast<int>(request.attrs.integer("groups"));
  return conv;
}

}  // namespace athanor::gpu
