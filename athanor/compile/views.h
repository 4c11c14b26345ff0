// Views: values that are read from another value's memory with other strides. Moving data then costs nothing.
#pragma once
#include <vector>

#include "athanor/compile/graph.h"

namespace athanor {

/// How to read a node's elements: from the memory of the node `base` (perhaps the node itself), as a
/// constant, or from the index (an iota).
struct View {
  enum class Kind : uint8_t { memory, constant, index };
  Kind kind = Kind::memory;
  int base = -1;
  double value = 0;    // the constant
  int64_t offset = 0;  // elements into base; for an index: its value at the origin
  Ints strides;        // elements for each axis of the node's shape; for an index: its slope
};

/// How each node is read. Throws Error(internal) for a reshape that cannot be a view; see add_copies.
std::vector<View> find_views(const Graph& graph);

/// Whether the node is all of its base's memory, in the order of that memory.
bool is_whole(const Graph& graph, const std::vector<View>& views, int id);

/// A node's value as an operand of a kernel.
OperandDesc operand_of(const Graph& graph, const std::vector<View>& views, int id);

/// The graph with copies (casts to the same dtype) where a view is not possible: reshapes of transposed
/// memory, strided or unstored inputs of kernels that need dense memory, and outputs that are views.
Graph add_copies(const Graph& graph);

}  // namespace athanor
