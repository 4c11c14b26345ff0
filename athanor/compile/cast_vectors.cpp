// Mixed precision leaves a bias in f32, but kernels take it in the type of the result that it is added to.
#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

/// Whether a node is a contraction's result, perhaps reshaped.
bool is_result(const Graph& graph, int id) {
  while (graph[id].op->prim == Prim::reshape) id = graph[id].inputs[0];
  return graph[id].op->is_contraction;
}

}  // namespace

Graph cast_vectors_first(const Graph& graph) {
  static const Op& cast = find_primitive(Prim::cast);
  Graph result;
  std::vector<int> renamed;
  const auto renamed_of = [&](int id) { return renamed[static_cast<size_t>(id)]; };
  // The same broadcast of the vector in another type.
  const auto spread_in = [&](DType dtype, GraphNode broadcast) {
    broadcast.rename(renamed_of);
    const TensorType from = result[broadcast.inputs[0]].type;
    broadcast.type.dtype = dtype;
    broadcast.inputs = {result.add({.op = &cast,
                                    .attrs = {{"dtype", dtype}},
                                    .inputs = broadcast.inputs,
                                    .type = {dtype, from.shape, from.device},
                                    .layout = {},
                                    .epilogue = {},
                                    .where = broadcast.where,
                                    .part = broadcast.part,
                                    .segment = broadcast.segment})};
    return result.add(std::move(broadcast));
  };
  for (const GraphNode& original : graph.nodes) {
    GraphNode node = original;
    node.rename(renamed_of);
    if (node.op->prim == Prim::add && is_float(node.type.dtype))
      for (const size_t side : {0, 1}) {
        const GraphNode& other = graph[original.inputs[1 - side]];
        if (other.op->prim == Prim::broadcast && other.type.dtype != node.type.dtype &&
            is_result(graph, original.inputs[side]))
          node.inputs[1 - side] = spread_in(node.type.dtype, other);
      }
    renamed.push_back(result.add(std::move(node)));
  }
  for (const int input : graph.inputs) result.inputs.push_back(renamed_of(input));
  for (const int output : graph.outputs) result.outputs.push_back(renamed_of(output));
  return remove_dead(result);
}

}  // namespace athanor
