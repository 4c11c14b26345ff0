// Computes bias and activation in the contraction's kernel, so that the finished result is written once.
#include <array>

#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

bool is_contraction(const GraphNode& node) { return node.op->epilogue == EpilogueRole::contraction; }

// A contraction, and the ops found between it and the end of the chain.
struct Chain {
  int contraction = -1;
  int bias = -1;  // a vector
  std::string activation;
};

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), uses_(graph.use_counts()) {}

  // The chain that ends in node `id`; contraction is -1 if there is none.
  Chain find(int id) const {
    const GraphNode& node = graph_[id];
    Chain chain;
    int below = id;
    if (node.op->epilogue == EpilogueRole::activation && used_once(node.inputs[0]))
      chain.activation = node.op->name, below = node.inputs[0];
    if (const int sum = through_reshapes(below, id); graph_[sum].op->prim == Prim::add)
      for (const int side : {0, 1}) {
        const int other = graph_[sum].inputs[static_cast<size_t>(1 - side)];
        const int contraction = contraction_below(graph_[sum].inputs[static_cast<size_t>(side)]);
        if (contraction < 0) continue;
        const int bias = channel_vector(other, contraction);
        if (bias >= 0) return {contraction, bias, chain.activation};
      }
    if (!chain.activation.empty()) chain.contraction = contraction_below(below);
    return chain;
  }

 private:
  bool used_once(int id) const { return uses_[static_cast<size_t>(id)] == 1; }

  // Walks from `id` down through reshapes that nothing else uses; `top` itself may have many users.
  int through_reshapes(int id, int top) const {
    while (graph_[id].op->prim == Prim::reshape && (id == top || used_once(id)) &&
           used_once(graph_[id].inputs[0]))
      id = graph_[id].inputs[0];
    return id;
  }

  int contraction_below(int id) const {
    while (used_once(id) && graph_[id].op->prim == Prim::reshape && keeps_last_extent(id))
      id = graph_[id].inputs[0];
    const GraphNode& node = graph_[id];
    return used_once(id) && is_contraction(node) && !node.epilogue.bias && is_float(node.type.dtype) &&
                   node.epilogue.activation.empty()
               ? id
               : -1;
  }

  bool keeps_last_extent(int id) const {
    const Shape &now = graph_[id].type.shape, &before = graph_[graph_[id].inputs[0]].type.shape;
    return now.rank() > 0 && before.rank() > 0 && now[-1] == before[-1] && graph_[id].type.shape.size() > 0;
  }

  // The vector that `id` broadcasts along the contraction's channel axis, or -1.
  int channel_vector(int id, int contraction) const {
    const GraphNode& spread = graph_[id];
    const bool conv = graph_[contraction].op->prim != Prim::batch_matmul;
    if (spread.op->prim != Prim::broadcast) return -1;
    const int base = spread.inputs[0];
    const Shape &from = graph_[base].type.shape, &to = spread.type.shape;
    if (conv && to != graph_[contraction].type.shape) return -1;
    const int axis = conv ? 1 : to.rank() - 1;
    const int64_t channels = graph_[contraction].type.shape[conv ? 1 : -1];
    if (graph_[base].type.shape.size() != channels || to[axis] != channels) return -1;
    const int source_axis = axis - (to.rank() - from.rank());
    return source_axis >= 0 && from[source_axis] == channels ? base : -1;
  }

  const Graph& graph_;
  std::vector<int> uses_;
};

}  // namespace

Graph fuse_epilogues(const Graph& graph, const CompileOptions& options) {
  if (!options.enabled(Pass::epilogue)) return graph;
  static const Op &reshape_op = find_primitive(Prim::reshape), &cast_op = find_primitive(Prim::cast);
  const Finder finder(graph);
  Graph result;
  std::vector<int> renamed;
  const auto renamed_of = [&](int id) { return renamed[static_cast<size_t>(id)]; };
  const auto reshaped = [&](int id, const Shape& shape, const GraphNode& like) {
    if (result[id].type.shape == shape) return id;
    GraphNode node{.op = &reshape_op,
                   .attrs = {{"shape", shape.to_ints()}},
                   .inputs = {id},
                   .type = result[id].type,
                   .layout = {},
                   .epilogue = {},
                   .where = like.where,
                   .part = like.part};
    node.type.shape = shape;
    return result.add(std::move(node));
  };
  // In mixed precision a bias is still f32.
  const auto in_type = [&](int id, DType dtype, const GraphNode& like) {
    if (result[id].type.dtype == dtype) return id;
    GraphNode node = result[id];
    node = {.op = &cast_op,
            .attrs = {{"dtype", dtype}},
            .inputs = {id},
            .type = node.type,
            .layout = {},
            .epilogue = {},
            .where = like.where,
            .part = like.part};
    node.type.dtype = dtype;
    return result.add(std::move(node));
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const Chain chain = finder.find(static_cast<int>(i));
    // The fused contraction takes the place of the end of the chain. The old contraction is dead.
    bool fused = false;
    if (chain.contraction >= 0) {
      GraphNode contraction = graph[chain.contraction];
      contraction.after.insert(contraction.after.end(), node.after.begin(), node.after.end());
      contraction.rename(renamed_of);
      contraction.segment = node.segment;
      if (chain.bias >= 0) {
        const int64_t channels = graph[chain.bias].type.shape.size();
        contraction.inputs.push_back(
            in_type(reshaped(renamed_of(chain.bias), {channels}, node), contraction.type.dtype, node));
      }
      contraction.epilogue = {chain.bias >= 0, chain.activation};
      std::vector<TensorType> types;
      for (int input : contraction.inputs) types.push_back(result[input].type);
      const bool primitive = contraction.op->prim != Prim::none;
      if (primitive || (options.enabled(Pass::dedicated) &&
                        backend_of(node.type.device)
                            .has_kernel(*contraction.op, types, contraction.type, contraction.attrs))) {
        const int id = result.add(std::move(contraction));
        renamed.push_back(reshaped(id, node.type.shape, node));
        fused = true;
      }
    }
    if (fused) continue;
    GraphNode copy = node;
    copy.rename(renamed_of);
    renamed.push_back(result.add(std::move(copy)));
  }
  for (int input : graph.inputs) result.inputs.push_back(renamed_of(input));
  for (int output : graph.outputs) result.outputs.push_back(renamed_of(output));
  return remove_dead(result);
}

}  // namespace athanor
