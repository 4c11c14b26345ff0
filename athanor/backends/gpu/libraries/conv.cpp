#include "athanor/backends/gpu/libraries/conv.h"

#include <algorithm>
#include <utility>

#include "athanor/backends/gpu/library.h"
#include "athanor/base/ceil_div.h"
#include "athanor/kernels/copying_loop.h"
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

/// Whether both images have their channels last.
bool has_channels_last(const KernelRequest& request) {
  const bool gradient = conv_kind(*request.op) == ConvKind::weight_grad;
  const OperandDesc& other = gradient ? request.inputs[1] : request.output();
  return request.inputs[0].channels_last() && other.channels_last();
}

/// Runs a library's kernel with its weights in scratch memory, after or before they are copied.
class WithTurnedWeights final : public Kernel {
 public:
  WithTurnedWeights(Candidate library, Candidate copy, const TurnedWeights& turned, size_t weight_bytes)
      : library_(std::move(library)),
        copy_(std::move(copy)),
        weights_(turned.weights),
        scratch_(static_cast<size_t>(turned.asked.scratch_buffer())),
        weight_bytes_(static_cast<int64_t>(weight_bytes)) {}

  void prepare() const override {
    library_.kernel->prepare();
    copy_.kernel->prepare();
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    const Binding turned = buffers[scratch_];
    const Binding rest{turned.storage, turned.offset + weight_bytes_};
    std::vector<Binding> own(buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(scratch_));
    const Binding weights = std::exchange(own[weights_], turned);
    if (library_.scratch_bytes > 0) own.push_back(rest);
    const bool gradient = weights_ + 1 == scratch_;
    std::vector<Binding> copied{weights, turned};
    if (gradient) std::swap(copied[0], copied[1]);
    if (copy_.scratch_bytes > 0) copied.push_back(rest);
    if (!gradient) copy_.kernel->enqueue(queue, copied, site);
    library_.kernel->enqueue(queue, own, site);
    if (gradient) copy_.kernel->enqueue(queue, copied, site);
  }

 private:
  Candidate library_, copy_;
  size_t weights_, scratch_;
  int64_t weight_bytes_;
};

}  // namespace

std::optional<TurnedWeights> turned_weights(const KernelRequest& request) {
  if (std::ranges::find(conv_ops(), request.op->name) == conv_ops().end() || request.has_epilogue() ||
      request.output().shape.rank() != 4 || !has_channels_last(request))
    return {};
  const bool gradient = conv_kind(*request.op) == ConvKind::weight_grad;
  TurnedWeights turned{request, {}, gradient ? size_t{2} : size_t{1}};
  OperandDesc& weights = gradient ? turned.asked.outputs[0] : turned.asked.inputs[1];
  if (!weights.dense() || weights.shape[2] * weights.shape[3] == 1) return {};
  Ints from = std::exchange(weights.strides, channels_last_strides(weights.shape)), to = weights.strides;
  if (gradient) std::swap(from, to);
  turned.copy = copying_loop(weights.dtype, weights.shape.to_ints(), std::move(from), std::move(to));
  return turned;
}

Candidate with_turned_weights(Candidate library, Candidate copy, const TurnedWeights& turned) {
  const OperandDesc& weights =
      turned.weights == 2 ? turned.asked.output() : turned.asked.inputs[turned.weights];
  constexpr auto alignment = static_cast<int64_t>(scratch_alignment);
  const int64_t bytes = weights.shape.size() * static_cast<int64_t>(size_of(weights.dtype));
  const auto whole = static_cast<size_t>(ceil_div(bytes, alignment) * alignment);
  const size_t scratch = whole + std::max(library.scratch_bytes, copy.scratch_bytes);
  std::string name = library.name + ", weights turned";
  const bool fewer_products = library.fewer_products;
  return {std::move(name), scratch,
          std::make_shared<WithTurnedWeights>(std::move(library), std::move(copy), turned, whole),
          fewer_products};
}

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
  const bool one_tap = weights->shape[2] * weights->shape[3] == 1;  // the same memory in either order
  conv.channels_last = (one_tap || weights->channels_last()) && has_channels_last(request);
  if (!weights->dense() && !conv.channels_last) return {};
  if (conv.channels_last)  // of extents of 1, too: libraries read the order from them
    for (LibraryConv::Tensor* one : {&conv.x, &conv.w, &conv.y}) {
      const auto& [n, c, h, w] = one->extents;
      one->strides = {h * w * c, 1, w * c, c};
    }
  conv.padding = pair_of(request, "padding");
  conv.stride = pair_of(request, "stride");
  conv.dilation = pair_of(request, "dilation");
  conv.groups = static_cast<int>(request.attrs.integer("groups"));
  return conv;
}

}  // namespace athanor::gpu
