// Fusion: which elementwise ops and reductions run together in one loop.
#pragma once
#include <vector>

#include "athanor/compile/graph.h"
#include "athanor/compile/views.h"

namespace athanor {

/// Nodes that are computed in one loop over a space: elementwise ops of the space's shape, reductions along
/// the same axes, and elementwise ops on the reductions' results (the epilogue).
struct LoopGroup {
  Shape space;
  Ints axes;              // the reduced axes; {} without reductions
  std::vector<int> body;  // elementwise, in topological order
  std::vector<int> reductions;
  std::vector<int> epilogue;
  int level = 0;  // the group runs after all groups and kernels of lower levels
};

/// What fusion decided.
struct Fusion {
  std::vector<LoopGroup> groups;
  std::vector<int> group_of;     // for each node: its group, or -1
  std::vector<bool> stored;      // for each node: whether its value is in memory
  std::vector<bool> recomputed;  // elementwise nodes cheap enough to recompute where they are used
};

/// Whether an elementwise op takes so long that its values are kept instead of recomputed.
bool is_costly(Prim prim);

/// Whether a small change of the operands changes the result little. Kernels round a contraction differently;
/// a discontinuous op on its result would make correct kernels disagree.
bool is_continuous(Prim prim);

/// Puts every elementwise op and reduction of the graph into exactly one group. Levels make sure that no two
/// groups wait for each other: a node joins a group only if everything else it needs comes from lower levels.
Fusion fuse(const Graph& graph, const std::vector<View>& views, bool enabled);

}  // namespace athanor
