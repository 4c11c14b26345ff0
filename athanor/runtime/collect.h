// What one evaluation computes: a part of the graph, with its nodes numbered.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "athanor/graph/node.h"

namespace athanor {

/// The nodes between those that have values and those that were asked for. A place is an index into `nodes`.
/// Collecting does not write to nodes: threads may evaluate graphs that begin with the same values.
struct Collected {
  /// The nodes to compute in the order of their creation, and each node with a value right before its first
  /// use. Its age does not count: parameters are new after every step, and an order by age would give the
  /// second step another plan.
  std::vector<Node*> nodes;
  std::vector<int> input_places;  // of nodes with a value
  std::vector<bool> donated;      // by input: its memory may be taken over
  std::vector<NodePtr> roots;
  std::vector<int> root_places;

  /// The places of a node's inputs; {} if it has a value.
  std::span<const int> inputs_of(size_t place) const {
    return std::span(edges_).subspan(first_edges_[place], first_edges_[place + 1] - first_edges_[place]);
  }

 private:
  std::vector<int> edges_;           // places of inputs, node after node
  std::vector<size_t> first_edges_;  // for each node, and the end

  friend Collected collect(std::vector<NodePtr> roots);
};

/// Throws Error(value) if a value that is needed was lost.
Collected collect(std::vector<NodePtr> roots);

}  // namespace athanor
