#include "athanor/nn/checkpoint.h"

#include "athanor/graph/op.h"

namespace athanor::nn {

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const bool outermost = SegmentScope::current().number == 0;
  const SegmentScope scope;
  const int32_t number = SegmentScope::current().number;
  Tensor result = f(x);
  if (!outermost || !result.defined()) return result;
  // A reshaped result shares the memory of its operand.
  for (Node* node = result.node().get(); node->segment.number == number; node = node->inputs[0].get()) {
    node->segment.result = true;
    if (!is_movement(node->op->prim) || node->inputs.empty()) break;
  }
  return result;
}

Tensor checkpoint(Module& module, const Tensor& x) {
  return checkpoint([&](const Tensor& input) { return module(input); }, x);
}

}  // namespace athanor::nn
