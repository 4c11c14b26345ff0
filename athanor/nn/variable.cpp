#include "athanor/nn/variable.h"

#include <fmt/format.h>

#include "athanor/base/error.h"

namespace athanor::nn {

Parameter::Parameter(Tensor initial) : Variable(std::make_shared<Cell>()) {
  initial = initial.detach();
  initial.requires_grad();
  cell_->slot = initial.node()->slot;
  cell_->value = std::move(initial);
}

Buffer::Buffer(Tensor initial) : Variable(std::make_shared<Cell>()) { cell_->value = initial.detach(); }

const Tensor& Variable::nothing() {
  static const Tensor undefined;
  return undefined;
}

void Variable::assign(Tensor value) const {
  const TensorType &old = cell_->value.type(), &now = value.type();
  if (old != now)
    throw Error(old.device != now.device ? ErrorCode::device
                : old.dtype != now.dtype ? ErrorCode::dtype
                                         : ErrorCode::shape,
                fmt::format("{} assigned to '{}', which is {}", to_string(now), name(), to_string(old)), {},
                "A parameter keeps its type: reshape, cast or move the value first");
  adopt(std::move(value));
}

void Variable::adopt(Tensor value) const {
  // The variable takes the value without its history, even if it is the leaf of another parameter.
  value = value.detach();
  if (cell_->slot) {
    value.node()->slot = cell_->slot;
    value.node()->requires_grad = true;
  }
  cell_->value = std::move(value);
}

void Variable::move_to(Device device) const {
  if (value().device() != device) adopt(Tensor::from(value().to_host(), device));
}

}  // namespace athanor::nn
