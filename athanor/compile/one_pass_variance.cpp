// A variance takes two passes over its values: one for the mean, one for the squares of what is left. Of f16
// and bf16 it takes one: sum((x - mean)^2) = sum(x^2) - mean sum(x). So the kernel that makes x can add up
// both. The difference of two large sums loses some 2^-24 (mean / deviation)^2 of the variance. Where that is
// much, x is nearly constant for its few bits; f32 has more of them. docs/mixed-precision.md has the numbers
// (and says from where on squares of bf16 are infinite).
#include <optional>

#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

struct Match {
  int x, sum, mean;  // the values in f32, their sum, and its quotient by their number
};

Prim prim_of(const Graph& graph, int id) { return graph[id].op->prim; }

/// Whether a value is of f16 or bf16, only stored in f32.
bool is_narrow(const Graph& graph, int id) {
  const GraphNode& node = graph[id];
  if (node.op->prim != Prim::cast || node.type.dtype != DType::f32) return false;
  const DType from = graph[node.inputs[0]].type.dtype;
  return from == DType::f16 || from == DType::bf16;
}

/// If `node` is sum((x - mean)^2) of 16-bit x, and `mean` is that over the same axes.
std::optional<Match> match(const Graph& graph, const GraphNode& node) {
  if (node.op->prim != Prim::sum) return {};
  const GraphNode& square = graph[node.inputs[0]];
  if (square.op->prim != Prim::mul || square.inputs[0] != square.inputs[1]) return {};
  const GraphNode& deviation = graph[square.inputs[0]];
  if (deviation.op->prim != Prim::sub) return {};
  const int x = deviation.inputs[0];
  const GraphNode& spread = graph[deviation.inputs[1]];
  if (!is_narrow(graph, x) || spread.op->prim != Prim::broadcast) return {};
  // The mean has an extent of 1 along the axes of the sum, so it has the sum's elements in their order.
  const Ints& axes = node.attrs.ints("axes");
  Shape kept = graph[x].type.shape;
  double count = 1;
  for (const int64_t axis : axes) {
    count *= static_cast<double>(kept[static_cast<int>(axis)]);
    kept = kept.with(static_cast<int>(axis), 1);
  }
  int at = spread.inputs[0], mean = -1;
  if (graph[at].type.shape != kept) return {};
  while (prim_of(graph, at) == Prim::reshape || (mean < 0 && prim_of(graph, at) == Prim::div)) {
    if (prim_of(graph, at) == Prim::div) {
      if (graph.number(graph[at].inputs[1]) != count) return {};
      mean = at;
    }
    at = graph[at].inputs[0];
  }
  const GraphNode& sum = graph[at];
  if (mean < 0 || sum.op->prim != Prim::sum || sum.inputs[0] != x || sum.attrs.ints("axes") != axes)
    return {};
  return Match{x, at, mean};
}

}  // namespace

Graph one_pass_variances(const Graph& graph) {
  Graph result;
  std::vector<int> renamed;
  const auto renamed_of = [&](int id) { return renamed[static_cast<size_t>(id)]; };
  for (const GraphNode& original : graph.nodes) {
    GraphNode node = original;
    node.rename(renamed_of);
    const std::optional<Match> found = match(graph, original);
    if (!found) {
      renamed.push_back(result.add(std::move(node)));
      continue;
    }
    const auto add = [&](Prim prim, Attrs attrs, std::vector<int> inputs, const Shape& shape) {
      GraphNode made = node;
      made.op = &find_primitive(prim);
      made.attrs = std::move(attrs);
      made.inputs = std::move(inputs);
      made.type.shape = shape;
      return result.add(std::move(made));
    };
    const Shape& shape = node.type.shape;
    const int x = renamed_of(found->x), sum = renamed_of(found->sum);
    const int squares = add(Prim::mul, {}, {x, x}, result[x].type.shape);
    const int all = add(Prim::sum, node.attrs, {squares}, shape);
    const int mean = add(Prim::reshape, {{"shape", shape.to_ints()}}, {renamed_of(found->mean)}, shape);
    const int around = add(Prim::sub, {}, {all, add(Prim::mul, {}, {sum, mean}, shape)}, shape);
    const int zero = add(Prim::constant, {{"value", 0.0}, {"dtype", node.type.dtype}}, {}, {});
    const int zeros = add(Prim::broadcast, {{"shape", shape.to_ints()}}, {zero}, shape);
    renamed.push_back(add(Prim::max, {}, {around, zeros}, shape));  // rounding may leave less than nothing
  }
  for (const int input : graph.inputs) result.inputs.push_back(renamed_of(input));
  for (const int output : graph.outputs) result.outputs.push_back(renamed_of(output));
  return remove_dead(result);
}

}  // namespace athanor
