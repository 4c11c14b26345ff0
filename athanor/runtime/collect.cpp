#include "athanor/runtime/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

/// A node as it was found.
struct Found {
  Node* node;
  bool has_value;
  int place = -1;           // in the order of computing
  int edges = 0;            // that lead here
  int owners = 0;           // all references that keep it alive
  uint32_t first_edge = 0;  // to its inputs
};

/// Nodes in the order in which they are found. Every step looks up every edge of its graph here, so this is a
/// table without chains, at most half full.
class Search {
 public:
  /// The node's number; a new one if it has none.
  uint32_t number_of(Node* node) {
    if (2 * found.size() >= slots_.size()) grow();
    uint32_t& slot = slot_of(node);
    if (slot == 0) {
      found.push_back({node, node->value != nullptr});
      slot = static_cast<uint32_t>(found.size());
    }
    return slot - 1;
  }

  std::vector<Found> found;

 private:
  uint32_t& slot_of(const Node* node) {
    const uint64_t hash = reinterpret_cast<uintptr_t>(node) * 0x9E3779B97F4A7C15ULL;
    size_t slot = hash >> (64 - std::countr_zero(slots_.size()));
    while (slots_[slot] != 0 && found[slots_[slot] - 1].node != node) slot = (slot + 1) & (slots_.size() - 1);
    return slots_[slot];
  }
  void grow() {
    slots_.assign(2 * slots_.size(), 0);
    for (size_t i = 0; i < found.size(); ++i) slot_of(found[i].node) = static_cast<uint32_t>(i + 1);
  }

  std::vector<uint32_t> slots_ = std::vector<uint32_t>(8192);  // a node's number plus 1; 0: none
};

struct Aged {
  uint64_t id;  // smaller ones are older
  uint32_t number;
};

/// Sorts a byte at a time: the ids of one step lie close together, so two rounds are enough. Comparing takes
/// several times as long.
void sort_by_age(std::vector<Aged>& nodes) {
  constexpr int bits = 8;
  uint64_t least = UINT64_MAX, most = 0;
  for (const Aged& node : nodes) least = std::min(least, node.id), most = std::max(most, node.id);
  std::vector<Aged> sorted(nodes.size());
  for (int shift = 0; shift < 64 && (most - least) >> shift != 0; shift += bits) {
    const auto digit = [&](const Aged& node) { return (node.id - least) >> shift & ((1U << bits) - 1); };
    std::array<size_t, (1U << bits) + 1> begins{};
    for (const Aged& node : nodes) ++begins[digit(node) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (const Aged& node : nodes) sorted[begins[digit(node)]++] = node;
    nodes.swap(sorted);
  }
}

void check_computable(const Node& node) {
  if (node.lost)
    throw Error(ErrorCode::value, fmt::format("a value was lost when an evaluation failed: {}", *node.lost),
                node.where.line() == 0 ? std::string() : to_string(node.where),
                "It was being updated in place. Assign a new value: load a checkpoint");
  if (node.op->prim == Prim::input)
    throw Error(ErrorCode::internal, "an input without a value was evaluated", to_string(node.where));
}

}  // namespace

Collected collect(std::vector<NodePtr> roots) {
  Search search;
  std::vector<Found>& found = search.found;
  std::vector<uint32_t> edges;
  std::vector<Aged> computed;
  for (const auto& root : roots) search.number_of(root.get());
  for (size_t i = 0; i < found.size(); ++i) {
    found[i].first_edge = static_cast<uint32_t>(edges.size());
    if (found[i].has_value) continue;
    const Node& node = *found[i].node;
    check_computable(node);
    computed.push_back({node.id, static_cast<uint32_t>(i)});
    for (const auto& input : node.inputs) {
      edges.push_back(search.number_of(input.get()));
      Found& one = found[edges.back()];
      ++one.edges;
      one.owners = static_cast<int>(input->references());
    }
  }
  sort_by_age(computed);

  Collected result;
  result.roots = std::move(roots);
  // A root that can still be differentiated keeps its history, and so the values in that history.
  const bool history_kept = std::ranges::any_of(
      result.roots, [](const NodePtr& root) { return root->requires_grad && !root->spent && !root->slot; });
  result.nodes.reserve(found.size());
  result.first_edges_.reserve(found.size() + 1);
  result.edges_.reserve(edges.size());
  const auto place = [&](Found& one) {
    one.place = static_cast<int>(result.nodes.size());
    result.nodes.push_back(one.node);
    result.first_edges_.push_back(result.edges_.size());
  };
  for (const auto& [id, i] : computed) {
    const size_t end = i + 1 < found.size() ? found[i + 1].first_edge : edges.size();
    const std::span inputs = std::span(edges).subspan(found[i].first_edge, end - found[i].first_edge);
    for (const uint32_t number : inputs) {
      Found& input = found[number];
      if (!input.has_value || input.place >= 0) continue;
      place(input);
      result.input_places.push_back(input.place);
      // Donated if only this evaluation refers to it.
      result.donated.push_back(!history_kept && input.node->handles() == 0 && input.owners == input.edges &&
                               input.node->value.use_count() == 1);
    }
    place(found[i]);
    for (const uint32_t number : inputs) result.edges_.push_back(found[number].place);
  }
  result.first_edges_.push_back(result.edges_.size());
  // The roots were found first, and have no duplicates.
  for (size_t i = 0; i < result.roots.size(); ++i) result.root_places.push_back(found[i].place);
  return result;
}

}  // namespace athanor
