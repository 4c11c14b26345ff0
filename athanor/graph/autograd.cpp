// Reverse-mode differentiation. Gradients are built as further graph nodes, so they can be differentiated
// again.
#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

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
  if (!a.defined()) return b;
  const SourceScope line(of.where);
  const PartScope part(of.part);
  const Autocast precision(of.precision);
  static const Op& add = find_op("add");
  return apply(add, {a, b});
}

std::vector<Tensor> inputs_of(const Node& node) {
  std::vector<Tensor> result;
  for (const auto& input : node.inputs) result.emplace_back(input);
  return result;
}

using Targets = std::unordered_set<const Node*>;

// The nodes through which gradients flow, from outputs to leaves (or targets), newest first, each with its
// gradient.
class Flow {
 public:
  Flow(const std::vector<Tensor>& outputs, const Targets& targets) : targets_(targets) {
    // Inputs are older than what is computed from them, so a heap by age gives the order, and equal nodes one
    // after the other.
    std::vector<Aged> heap;
    const auto add = [&](const NodePtr& node) {
      if (!flows_to(*node)) return;
      heap.push_back({node->id, &node});
      std::ranges::push_heap(heap, {}, &Aged::id);
    };
    for (const auto& output : outputs) add(output.node());
    while (!heap.empty()) {
      std::ranges::pop_heap(heap, {}, &Aged::id);
      const auto [id, node] = heap.back();
      heap.pop_back();
      if (!ids_.empty() && ids_.back() == id) continue;
      ids_.push_back(id);
      nodes_.push_back(*node);
      if (!ends_at(**node))
        for (const auto& input : (*node)->inputs) add(input);
    }
    gradients_.resize(nodes_.size());
  }

  size_t size() const { return nodes_.size(); }
  const NodePtr& node(size_t i) const { return nodes_[i]; }
  Tensor& gradient(size_t i) { return gradients_[i]; }
  /// Null if no gradient flows to the node.
  Tensor* gradient_of(const Node& node) {
    const auto found = std::ranges::lower_bound(ids_, node.id, std::greater<>());
    return found == ids_.end() || *found != node.id ? nullptr
                                                    : &gradients_[static_cast<size_t>(found - ids_.begin())];
  }
  bool flows_to(const Node& node) const { return node.requires_grad || targets_.contains(&node); }
  bool ends_at(const Node& node) const { return node.slot || targets_.contains(&node); }

 private:
  struct Aged {
    uint64_t id;
    const NodePtr* node;
  };
  const Targets& targets_;
  std::vector<uint64_t> ids_;  // of the nodes
  std::vector<NodePtr> nodes_;
  std::vector<Tensor> gradients_;
};

// The gradients of one node's inputs, by the op's own rule or through its decomposition.
std::vector<Tensor> input_gradients(const Tensor& output, const Tensor& gradient) {
  const NodePtr& node = output.node();
  const SourceScope line(node->where);
  const PartScope part(node->part);
  const Autocast precision(node->precision);
  const std::vector<Tensor> inputs = inputs_of(*node);
  const Op& op = *node->op;
  if (op.grad) {
    std::vector<bool> needed;
    for (const auto& input : inputs) needed.push_back(input.needs_grad());
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
  Tensor composed;
  {
    const WithGrad on;  // the decomposition must be differentiable even under NoGrad
    composed = op.decompose(inputs, node->attrs);
  }
  const auto gradients = grad({composed}, differentiable, {gradient});
  std::vector<Tensor> result(inputs.size());
  for (size_t i = 0; i < positions.size(); ++i) result[positions[i]] = gradients[i];
  return result;
}

void propagate(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds, Flow& flow) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SourceScope line(outputs[i].node()->where);
    const Tensor seed = seeds.empty() || !seeds[i].defined() ? filled(1, outputs[i].type()) : seeds[i];
    if (Tensor* slot = flow.gradient_of(*outputs[i].node())) *slot = sum_of(*slot, seed, *outputs[i].node());
  }
  for (size_t n = 0; n < flow.size(); ++n) {
    const Node& node = *flow.node(n);
    if (!flow.gradient(n).defined() || flow.ends_at(node)) continue;
    const Tensor gradient = std::exchange(flow.gradient(n), {});
    const auto of_inputs = input_gradients(Tensor(flow.node(n)), gradient);
    for (size_t i = 0; i < of_inputs.size(); ++i) {
      const Node& input = *node.inputs[i];
      if (!of_inputs[i].defined() || !flow.flows_to(input)) continue;
      if (of_inputs[i].type() != input.type)
        throw Error(ErrorCode::internal,
                    fmt::format("the gradient of {}'s input {} is {}, not {}", node.op->name, i,
                                to_string(of_inputs[i].type()), to_string(input.type)));
      Tensor& slot = *flow.gradient_of(input);
      slot = sum_of(slot, of_inputs[i], input);
    }
  }
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
  Targets targets;
  for (const auto& input : inputs) targets.insert(input.node().get());
  Flow flow(outputs, targets);
  propagate(outputs, seeds, flow);
  std::vector<Tensor> result;
  for (const auto& input : inputs) {
    const Tensor* found = flow.gradient_of(*input.node());
    result.push_back(found && found->defined() ? *found : filled(0, input.type()));
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
  const Targets none;
  Flow flow({*this}, none);
  {
    const NoGrad off;  // first-order gradients need no history; grad() keeps it
    propagate({*this}, {}, flow);
  }
  for (size_t i = 0; i < flow.size(); ++i) {
    Node& node = *flow.node(i);
    if (node.slot) {
      if (flow.gradient(i).defined()) node.slot->grad = sum_of(node.slot->grad, flow.gradient(i), node);
    } else {
      node.spent = true;
      if (node.value) node.inputs.clear();
    }
  }
}

}  // namespace athanor
