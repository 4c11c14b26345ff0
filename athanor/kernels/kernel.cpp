#include "athanor/kernels/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/prologue.h"
#include "athanor/ops/op_case.h"

namespace athanor {

std::string to_string(Layout layout) {
  if (layout.is_channels_last()) return "nhwc";
  return layout.block == 0 ? "row-major" : fmt::format("nChw{}c", layout.block);
}

Ints channels_last_strides(const Shape& shape) {
  const int64_t row = shape[3] * shape[1];
  return {shape[2] * row, 1, row, shape[1]};
}

int64_t OperandDesc::reach() const {
  if (shape.size() == 0) return 0;
  int64_t last = padding;
  for (int i = 0; i < shape.rank(); ++i) last += (shape[i] - 1) * std::abs(strides[static_cast<size_t>(i)]);
  return last + 1;
}

std::string KernelRequest::key() const {
  std::string key = op->name;
  for (const Op* other : with) key += "+" + other->name;
  const auto add = [&](const OperandDesc& operand) {
    key += fmt::format(" {}{}", to_string(operand.dtype), to_string(operand.shape));
    if (operand.layout.block != 0)
      key += to_string(operand.layout);
    else if (!operand.dense())
      key += fmt::format("/{}", fmt::join(operand.strides, ","));
    if (operand.padding > 0) key += fmt::format("+{}", operand.padding);
    if (operand.alignment < OperandDesc::whole_vectors) key += fmt::format("@{}", operand.alignment);
  };
  for (const auto& input : inputs) add(input);
  key += " ->";
  for (const auto& output : outputs) add(output);
  if (unstored) {
    key += " of";
    add(*unstored);
  }
  if (!attrs.entries().empty()) key += " " + to_string(attrs);
  key += epilogue_key(*this) + prologue_key(*this);
  if (const std::string in = computes_in(); !in.empty()) key += " in " + in;
  return key;
}

size_t KernelRequest::own_inputs() const {
  const size_t others = inputs.size() - prologue_inputs();
  return has_epilogue() ? others + 1 + outputs.size() - static_cast<size_t>(epilogue.buffers) : others;
}

int64_t KernelRequest::flops() const {
  std::vector<TensorType> types;
  for (const OperandDesc& input : inputs) types.push_back({input.dtype, input.shape, {}});
  const auto of = [&](const auto& rule, const OperandDesc& result) {
    return rule ? rule(types, TensorType{result.dtype, result.shape, {}}, attrs) : int64_t{0};
  };
  int64_t all = of(op->flops, output());
  const Op* last = op;
  for (size_t i = 0; i < with.size(); last = with[i++])
    all += of(with[i]->flops, outputs[first_with() + i]) -
           of(last->shared_flops, i == 0 ? output() : outputs[first_with() + i - 1]);
  return all;
}

std::string KernelRequest::computes_in() const {
  if (compute == ComputeType::tf32) return "tf32";
  return sum_type() == output().dtype ? "" : std::string(to_string(sum_type()));
}

double KernelRequest::rounding() const {
  if (!is_float(output().dtype)) return 0;
  // How many terms an element sums: half of its arithmetic; in a scan or a scatter, up to a whole axis.
  double terms = 1;
  if (op->flops) {
    std::vector<TensorType> types;
    for (const OperandDesc& input : inputs) types.push_back({input.dtype, input.shape, {}});
    const auto flops = op->flops(types, {output().dtype, output().shape, {}}, attrs);
    terms =
        static_cast<double>(flops) / (2.0 * static_cast<double>(std::max<int64_t>(1, output().shape.size())));
  } else {
    for (const OperandDesc& input : inputs)
      for (const int64_t extent : input.shape) terms = std::max(terms, static_cast<double>(extent));
  }
  // Winograd's transforms and approximations of functions lose a few bits, sums in another order half a bit
  // for each doubling of their terms. Rounding factors to tf32 is off by some 2000 units however many terms
  // there are; that must be detected.
  double allowed = std::min(1024.0, 256 + 8 * std::sqrt(std::max(1.0, terms))) * epsilon(sum_type());
  constexpr double tf32_epsilon = 0x1p-10;
  if (compute == ComputeType::tf32)
    allowed += 2 * tf32_epsilon;  // of each factor; their errors average out in a sum
  if (size_of(output().dtype) < size_of(sum_type())) allowed += 2 * epsilon(output().dtype);
  return allowed;
}

Candidate Backend::row_chain_kernel(int /*device*/, std::span<const LoopProgram> /*loops*/) {
  throw Error(ErrorCode::internal, "this backend runs no chains of loops");
}

Candidate Backend::joined_kernel(int /*device*/, std::span<const LoopProgram> /*loops*/) {
  throw Error(ErrorCode::internal, fmt::format("{} has no kernels for several loops", name()));
}

Backend& backend_of(Device device) {
  // Every provider that this program registers is a backend; a provider without kernels would be a bug.
  return dynamic_cast<Backend&>(provider_of(device));
}

Queue& queue_of(Device device, QueueKind kind) {
  Backend& backend = backend_of(device);
  return kind == QueueKind::kernels     ? backend.queue(device.index)
         : kind == QueueKind::copies_in ? backend.copies_in(device.index)
                                        : backend.copies_out(device.index);
}

}  // namespace athanor
