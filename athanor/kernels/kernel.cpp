#include "athanor/kernels/kernel.h"

#include <fmt/format.h>

#include "athanor/base/error.h"

namespace athanor {

std::string to_string(Layout layout) {
  return layout.block == 0 ? "row-major" : fmt::format("nChw{}c", layout.block);
}

std::string KernelRequest::key() const {
  std::string key = op->name;
  const auto add = [&](const OperandDesc& operand) {
    key += fmt::format(" {}{}", to_string(operand.dtype), to_string(operand.shape));
    if (operand.layout.block != 0)
      key += to_string(operand.layout);
    else if (!operand.dense())
      key += fmt::format("/{}", fmt::join(operand.strides, ","));
  };
  for (const auto& input : inputs) add(input);
  key += " ->";
  add(output);
  if (!attrs.entries().empty()) key += " " + to_string(attrs);
  if (epilogue.bias) key += " +bias";
  if (!epilogue.activation.empty()) key += " " + epilogue.activation;
  return key;
}

Backend& backend_of(Device device) {
  // Every provider that this program registers is a backend; a provider without kernels would be a bug.
  return dynamic_cast<Backend&>(provider_of(device));
}

Queue& queue_of(Device device) { return backend_of(device).queue(device.index); }

Queue& transfers_of(Device device) { return backend_of(device).transfers(device.index); }

}  // namespace athanor
