// What passes share that compute the loop of one step in the kernel of another.
#pragma once
#include <algorithm>
#include <set>
#include <vector>

#include "athanor/compile/plan.h"

namespace athanor {

/// Which steps of a plan write and read its values.
struct StepLinks {
  explicit StepLinks(const Plan& plan);
  std::vector<int> writer;             // for each value: the step that writes it, or -1
  std::vector<std::set<int>> readers;  // for each value: the steps that read it or must come after it

  /// Whether step `to` needs results of step `from` through another step between them.
  bool reaches_through_others(const Plan& plan, int from, int to) const;
};

/// Removes steps, and reorders the others so that values are written before they are read, by the links.
void order_by_links(Plan& plan, const StepLinks& links, const std::vector<bool>& removed);

/// The most buffers that an absorbed loop reads, and the most steps: all are computed for each element of a
/// tile that waits in registers.
constexpr size_t most_absorbed_inputs = 14, most_absorbed_steps = 128;

/// Whether a result belongs to a segment (nn::checkpoint) and is recomputed later, by a kernel of its own.
bool is_in_segment(const Plan& plan, const PlanStep& step);
/// A value as an operand that is not blocked. A loop has its own strides, so the value's shape does not
/// matter.
OperandDesc operand_of(const Plan& plan, const BufferRef& ref);

/// Adds those of `more` that the list does not have.
template <class List>
void add_new(List& list, const List& more) {
  for (const auto& one : more)
    if (std::ranges::find(list, one) == list.end()) list.push_back(one);
}

}  // namespace athanor
