// Graph: the values to compute, as a list of nodes. Each pass turns a graph into another one.
#pragma once
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "athanor/compile/options.h"
#include "athanor/graph/node.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

/// One value and how it is computed from earlier ones.
struct GraphNode {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<int> inputs;  // positions in Graph::nodes, all smaller than this node's
  TensorType type;
  Layout layout;
  Ints order = {};       // the axes' order in memory, outermost first; {}: as in the shape. Set by add_copies
  LoopProgram epilogue;  // only of contractions: see KernelRequest. Its inputs follow the op's
  std::source_location where;
  PartName part;
  /// Earlier nodes that must be computed before this one, although it does not read them. For example, the
  /// recomputation of a value waits until the value is needed.
  std::vector<int> after = {};
  /// The precision of the Autocast that it was made in. After the pass autocast() it is f32, or tf32 for
  /// contractions.
  Precision precision = Precision::f32;
  /// The nn::checkpoint that it was made in.
  Segment segment = {};
  /// The host computes it for a device that cannot (CompileOptions::host_ops).
  bool off_device = false;

  /// Replaces each node that this one refers to.
  template <class Renamed>
  void rename(Renamed&& renamed) {
    for (int& input : inputs) input = renamed(input);
    for (int& earlier : after) earlier = renamed(earlier);
  }
};

/// A step's computation in topological order.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<int> inputs;   // the "input" nodes, in the order in which values are bound to them
  std::vector<int> outputs;  // the requested values

  int add(GraphNode node) {
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  GraphNode& operator[](int id) { return nodes[static_cast<size_t>(id)]; }
  const GraphNode& operator[](int id) const { return nodes[static_cast<size_t>(id)]; }
  /// How many nodes and outputs use each node.
  std::vector<int> use_counts() const;
  /// The number, if all elements of a node are the same constant. Looks through broadcasts and reshapes.
  std::optional<double> number(int id) const;
};

/// "%3 = add f32[2, 3] (%1, %2)", one line for each node; for tests and debugging.
std::string to_string(const Graph& graph);

// The passes, in the order in which they run. The graph's meaning stays the same.

/// Mixed precision: gives nodes made in an Autocast the types that their ops' CastPolicy asks for, and adds
/// the casts. Inputs and outputs of the graph keep their types. See docs/mixed-precision.md.
Graph autocast(const Graph& graph);
/// Decomposes every op that has no kernel on its device, until only primitives and ops with kernels are left.
/// Throws Error(device) naming the op and the user's line if an op has neither a kernel nor a decomposition.
Graph lower(const Graph& graph, const CompileOptions& options);
/// Turns transposed products into products of transposes, which are views. The old products become unused.
Graph orient_products(const Graph& graph);
/// Removes identities, common subexpressions and unused nodes.
Graph simplify(const Graph& graph);
/// Computes variances of f16 and bf16 in one pass over the values. Runs after simplify().
Graph one_pass_variances(const Graph& graph);
/// Casts a vector that is added to a contraction's result before it is broadcast, not afterwards, because
/// kernels take a bias in the result's type.
Graph cast_vectors_first(const Graph& graph);
/// Chooses blocked layouts for the inputs and results of convolutions, and adds reorders at the edges.
Graph choose_layouts(const Graph& graph, const CompileOptions& options);
/// Makes the elementwise ops after a contraction its epilogue, if its device has kernels for this and nothing
/// else uses the values in between. Runs after add_copies. `donated`: see compile().
Graph fuse_epilogues(const Graph& graph, const std::vector<bool>& donated, const CompileOptions& options);

/// Keeps only the nodes that outputs need, and all inputs.
Graph remove_dead(const Graph& graph);

}  // namespace athanor
