#include "athanor/backends/gpu/libraries/conv.h"

#include <fmt/format.h>

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

/// Runs a library's kernel with some operands in scratch memory, after or before they are copied.
class WithTurned final : public Kernel {
 public:
  struct Part {
    size_t buffer;
    Candidate copy;
    int64_t start;  // in scratch memory
  };
  WithTurned(Candidate library, std::vector<Part> parts, size_t scratch, int64_t scratch_start)
      : library_(std::move(library)), parts_(std::move(parts)), scratch_(scratch), rest_(scratch_start) {}

  void prepare() const override {
    library_.kernel->prepare();
    for (const Part& part : parts_) part.copy.kernel->prepare();
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    const auto in_scratch = [&](int64_t start) {
      return Binding{buffers[scratch_].storage, buffers[scratch_].offset + start};
    };
    std::vector<Binding> own(buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(scratch_));
    for (const Part& part : parts_) own[part.buffer] = in_scratch(part.start);
    if (library_.scratch_bytes > 0) own.push_back(in_scratch(rest_));
    const auto copy = [&](bool results) {
      for (const Part& part : parts_) {
        if ((part.buffer + 1 == scratch_) != results) continue;
        std::vector<Binding> copied{buffers[part.buffer], in_scratch(part.start)};
        if (results) std::swap(copied[0], copied[1]);
        if (part.copy.scratch_bytes > 0) copied.push_back(in_scratch(rest_));
        part.copy.kernel->enqueue(queue, copied, site);
      }
    };
    copy(false);
    library_.kernel->enqueue(queue, own, site);
    copy(true);
  }

 private:
  Candidate library_;
  std::vector<Part> parts_;
  size_t scratch_;
  int64_t rest_;  // where the library's own begins
};

/// Asks for operands in the order of `strides_of`, where they have another.
TurnedConv turned_to(const KernelRequest& request, std::initializer_list<size_t> buffers,
                     Ints (*strides_of)(const Shape&), const char* name) {
  TurnedConv conv{request, {}, name};
  for (const size_t buffer : buffers) {
    const bool is_result = buffer == request.inputs.size();
    OperandDesc& operand = is_result ? conv.asked.outputs[0] : conv.asked.inputs[buffer];
    Ints to = strides_of(operand.shape), from = std::exchange(operand.strides, to);
    if (is_result) std::swap(from, to);
    conv.turned.push_back(
        {buffer, copying_loop(operand.dtype, operand.shape.to_ints(), std::move(from), std::move(to))});
  }
  return conv;
}

}  // namespace

std::vector<TurnedConv> turned_convs(const KernelRequest& request) {
  if (std::ranges::find(conv_ops(), request.op->name) == conv_ops().end() || request.has_epilogue() ||
      request.output().shape.rank() != 4 || !has_channels_last(request))
    return {};
  const bool gradient = conv_kind(*request.op) == ConvKind::weight_grad;
  const OperandDesc& weights = gradient ? request.output() : request.inputs[1];
  if (!weights.dense() || weights.shape[2] * weights.shape[3] == 1) return {};
  const size_t of_weights = gradient ? 2 : 1, other_images = gradient ? 1 : 2;
  std::vector<TurnedConv> convs{turned_to(request, {of_weights}, channels_last_strides, "weights turned")};
  if (request.output().dtype == DType::f32)
    convs.push_back(turned_to(request, {0, other_images}, contiguous_strides, "images turned"));
  return convs;
}

Candidate with_turned(Candidate library, std::vector<Candidate> copies, const TurnedConv& conv) {
  constexpr auto alignment = static_cast<int64_t>(scratch_alignment);
  std::vector<WithTurned::Part> parts;
  int64_t start = 0;
  size_t rest = library.scratch_bytes;
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto& [buffer, loop] = conv.turned[i];
    rest = std::max(rest, copies[i].scratch_bytes);
    parts.push_back({buffer, std::move(copies[i]), start});
    const int64_t bytes = loop.iterations() * static_cast<int64_t>(size_of(loop.operands[0].dtype));
    start += ceil_div(bytes, alignment) * alignment;
  }
  std::string name = fmt::format("{}, {}", library.name, conv.name);
  const bool fewer_products = library.fewer_products;
  return {
      std::move(name), static_cast<size_t>(start) + rest,
      std::make_shared<WithTurned>(std::move(library), std::move(parts), conv.asked.scratch_buffer(), start),
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
