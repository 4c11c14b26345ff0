// Reverse-mode differentiation. Gradients are built as further graph nodes, so they can be differentiated
// again.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"
#include "athanor/graph/tensor.h"

namespace athanor {
namespace {

Tensor filled(double value, const TensorType& type) {
  static const Op &constant = find_op("constant"), &broadcast = find_op("broadcast");
  Tensor scalar = apply(constant, {}, {{"value", value}, {"dtype", type.dtype}});
  scalar.node()->type.device = type.device;
  return type.shape.rank() == 0 ? scalar : apply(broadcast, {scalar}, {{"shape", type.shape.to_ints()}});
}

Tensor sum_of(const Tensor& a, const Tensor& b, const Node& of) {
  const SourceScope line(of.where);
  const PartScope part(of.part);
  const Autocast precision(of.precision);
  static const Op& add = find_op("add");
  return a.defined() ? apply(add, {a, b}) : b;
}

std::vector<Tensor> inputs_of(const Node& node) {
  std::vector<Tensor> result;
  for (const auto& input : node.inputs) result.emplace_back(input);
  return result;
}

// The nodes through which gradients flow, from `outputs` to leaves (or `targets`), newest first.
std::vector<NodePtr> differentiable_nodes(const std::vector<Tensor>& outputs,
                                          const std::unordered_set<const Node*>& targets) {
  std::vector<NodePtr> found, stack;
  std::unordered_set<const Node*> seen;
  for (const auto& output : outputs) stack.push_back(output.node());
  while (!stack.empty()) {
    NodePtr node = std::move(stack.back());
    stack.pop_back();
    if (!(node->requires_grad || targets.contains(node.get())) || !seen.insert(node.get()).second) continue;
    if (!node->slot && !targets.contains(node.get()))
      for (const auto& input : node->inputs) stack.push_back(input);
    found.push_back(std::move(node));
  }
  std::sort(found.begin(), found.end(), [](const NodePtr& a, const NodePtr& b) { return a->id > b->id; });
  return found;
}

using Gradients = std::unordered_map<const Node*, Tensor>;

// The gradients of one node's inputs, by the op's own rule or through its decomposition.
std::vector<Tensor> input_gradients(const NodePtr& node, const Tensor& gradient) {
  const SourceScope line(node->where);
  const PartScope part(node->part);
  const Autocast precision(node->precision);
  const std::vector<Tensor> inputs = inputs_of(*node);
  const Op& op = *node->op;
  if (op.grad) {
    std::vector<bool> needed;
    for (const auto& input : inputs) needed.push_back(input.needs_grad());
    const Tensor output(node);
    return op.grad({inputs, output, gradient, node->attrs, needed});
  }
  if (!op.decompose)
    throw Error(ErrorCode::value, fmt::format("{} has no gradient", op.name), to_string(node->where));
  // A tensor may be several of the inputs. It has one gradient, the sum over all of them.
  std::vector<Tensor> differentiable;
  std::vector<size_t> positions;
  std::unordered_set<const Node*> seen;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].needs_grad() && seen.insert(inputs[i].node().get()).second)
      differentiable.push_back(inputs[i]), positions.push_back(i);
  Tensor output;
  {
    const WithGrad on;  // the decomposition must be differentiable even under NoGrad
    output = op.decompose(inputs, node->attrs);
  }
  const auto gradients = grad({output}, differentiable, {gradient});
  std::vector<Tensor> result(inputs.size());
  for (size_t i = 0; i < positions.size(); ++i) result[positions[i]] = gradients[i];
  return result;
}

Gradients propagate(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                    const std::vector<NodePtr>& nodes, const std::unordered_set<const Node*>& targets) {
  Gradients gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SourceScope line(outputs[i].node()->where);
    const Tensor seed = seeds.empty() || !seeds[i].defined() ? filled(1, outputs[i].type()) : seeds[i];
    Tensor& slot = gradients[outputs[i].node().get()];
    slot = sum_of(slot, seed, *outputs[i].node());
  }
  for (const auto& node : nodes) {
    const auto found = gradients.find(node.get());
    if (found == gradients.end() || node->slot || targets.contains(node.get())) continue;
    const Tensor gradient = std::move(found->second);
    gradients.erase(found);
    const auto of_inputs = input_gradients(node, gradient);
    for (size_t i = 0; i < of_inputs.size(); ++i) {
      const Node* input = node->inputs[i].get();
      if (!of_inputs[i].defined() || !(input->requires_grad || targets.contains(input))) continue;
      if (of_inputs[i].type() != input->type)
        throw Error(ErrorCode::internal,
                    fmt::format("the gradient of {}'s input {} is {}, not {}", node->op->name, i,
                                to_string(of_inputs[i].type()), to_string(input->type)));
      Tensor& slot = gradients[input];
      slot = sum_of(slot, of_inputs[i], *input);
    }
  }
  return gradients;
}

void check_all_defined(const char* what, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].defined())
      throw Error(ErrorCode::value,
                  fmt::format("grad(): its {} {} of {} is undefined", what, i + 1, tensors.size()),
                  SourceScope::current() ? to_string(*SourceScope::current()) : std::string());
}

}  // namespace

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& seeds) {
  check_all_defined("output", outputs);
  check_all_defined("input", inputs);
  std::unordered_set<const Node*> targets;
  for (const auto& input : inputs) targets.insert(input.node().get());
  Gradients gradients = propagate(outputs, seeds, differentiable_nodes(outputs, targets), targets);
  std::vector<Tensor> result;
  for (const auto& input : inputs) {
    auto found = gradients.find(input.node().get());
    result.push_back(found == gradients.end() ? filled(0, input.type()) : found->second);
  }
  return result;
}

void Tensor::backward(Line line) const {
  known("backward", line);
  if (size() != 1)
    throw Error(ErrorCode::shape, fmt::format("backward() of a tensor {}", to_string(type())), {},
                "It needs a scalar: reduce it first (sum, mean), or use grad() with seeds");
  if (!needs_grad())
    throw Error(ErrorCode::value, "backward() of a value that depends on nothing that requires a gradient",
                {}, "Call requires_grad() on the leaves, and build the value outside NoGrad");
  const auto nodes = differentiable_nodes({*this}, {});
  Gradients gradients;
  {
    const NoGrad off;  // first-order gradients need no history; grad() keeps it
    gradients = propagate({*this}, {}, nodes, {});
  }
  for (const auto& node : nodes) {
    if (node->slot) {
      if (auto found = gradients.find(node.get()); found != gradients.end())
        node->slot->grad = sum_of(node->slot->grad, found->second, *node);
    } else {
      node->spent = true;
      if (node->value) node->inputs.clear();
    }
  }
}

}  // namespace athanor
