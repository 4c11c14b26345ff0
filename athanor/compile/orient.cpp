// Computes a product in the orientation in which it is read: the transpose of a matrix product is the product
// of the transposes. A weight's gradient then has the memory order of the weight, and the update runs at
// memory speed.
#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

bool swaps_matrix_axes(const GraphNode& node) {
  return node.op->prim == Prim::permute && node.attrs.ints("axes") == Ints{1, 0};
}

// Which nodes swap axes that their only user swaps back, as it happens to gradients of weights that a linear
// layer swaps. Simplification removes both.
std::vector<bool> find_swapped_back(const Graph& graph, const std::vector<int>& uses) {
  std::vector<bool> back(graph.nodes.size(), false);
  for (const GraphNode& node : graph.nodes)
    if (swaps_matrix_axes(node) && swaps_matrix_axes(graph[node.inputs[0]]))
      back[static_cast<size_t>(node.inputs[0])] = uses[static_cast<size_t>(node.inputs[0])] == 1;
  return back;
}

// The product that `id` transposes (through a reshape [1, M, N] -> [M, N]), if nothing else uses it; else -1.
int transposed_product(const Graph& graph, int id, const std::vector<int>& uses,
                       const std::vector<bool>& swapped_back) {
  const auto once = [&](int n) { return uses[static_cast<size_t>(n)] == 1; };
  const auto is_back = [&](int n) { return static_cast<bool>(swapped_back[static_cast<size_t>(n)]); };
  if (!swaps_matrix_axes(graph[id]) || is_back(id)) return -1;
  int flat = graph[id].inputs[0], swaps = 1;
  for (; is_back(flat); flat = graph[flat].inputs[0]) ++swaps;
  if (swaps % 2 == 0 || graph[flat].op->prim != Prim::reshape || !once(flat)) return -1;
  const int product = graph[flat].inputs[0];
  const GraphNode& p = graph[product];
  const Shape &three = p.type.shape, &two = graph[flat].type.shape;
  const bool plain = p.op->prim == Prim::batch_matmul && once(product);
  return plain && three[0] == 1 && two == Shape{three[1], three[2]} ? product : -1;
}

}  // namespace

Graph orient_products(const Graph& graph) {
  const std::vector<int> uses = graph.use_counts();
  const std::vector<bool> swapped_back = find_swapped_back(graph, uses);
  static const Op &permute = find_primitive(Prim::permute), &reshape = find_primitive(Prim::reshape);
  Graph result;
  std::vector<int> renamed;
  const auto add = [&](const Op& op, Attrs attrs, int input, const Shape& shape) {
    GraphNode node = result[input];
    node = {.op = &op,
            .attrs = std::move(attrs),
            .inputs = {input},
            .type = node.type,
            .layout = {},
            .epilogue = {},
            .where = node.where,
            .part = node.part};
    node.type.shape = shape;
    return result.add(std::move(node));
  };
  const auto transposed = [&](int id) {
    const Shape s = result[id].type.shape;
    return add(permute, {{"axes", Ints{0, 2, 1}}}, id, {s[0], s[2], s[1]});
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode node = graph.nodes[i];
    node.rename([&](int id) { return renamed[static_cast<size_t>(id)]; });
    const int product = transposed_product(graph, static_cast<int>(i), uses, swapped_back);
    if (product >= 0) {
      GraphNode turned = graph[product];
      const int a = renamed[static_cast<size_t>(turned.inputs[0])],
                b = renamed[static_cast<size_t>(turned.inputs[1])];
      const Shape before = turned.type.shape;
      for (int& earlier : turned.after) earlier = renamed[static_cast<size_t>(earlier)];
      turned.inputs = {transposed(b), transposed(a)};
      turned.type.shape = {1, before[2], before[1]};
      renamed.push_back(add(reshape, {{"shape", node.type.shape.to_ints()}}, result.add(std::move(turned)),
                            node.type.shape));
    } else {
      renamed.push_back(result.add(std::move(node)));
    }
  }
  for (int input : graph.inputs) result.inputs.push_back(renamed[static_cast<size_t>(input)]);
  for (int output : graph.outputs) result.outputs.push_back(renamed[static_cast<size_t>(output)]);
  return result;
}

}  // namespace athanor
