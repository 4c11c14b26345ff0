// Updates in place: which outputs take over the memory of donated inputs.
#pragma once
#include <vector>

#include "athanor/compile/plan.h"

namespace athanor {

/// A loop of a step, and which values its buffers are; -1: none.
struct Walk {
  const LoopProgram& program;
  std::vector<int> values;
  int value_of(int operand) const {
    return values[static_cast<size_t>(program.operands[static_cast<size_t>(operand)].buffer)];
  }
};
/// A step's loops, which run at the same time, or the epilogue of its contraction.
std::vector<Walk> walks_of(const PlanStep& s);
/// Whether every loop of a step that reads `in` also writes `out`, and walks both in the same way.
bool walks_alike(const PlanStep& s, const std::vector<Walk>& walks, int in, int out);

/// An update in place that would come too early, because a step needs the old value longer.
struct LateUpdate {
  int step, in, out;
};
/// Lets outputs take over donated inputs from which they are computed, or that are read beside them, element
/// by element. Returns those that can only be written later.
std::vector<LateUpdate> pair_outputs(Plan& plan, const std::vector<bool>& donated);
/// Only small values are, such as weights of batch norm, where launches are replayed.
bool can_write_later(const Plan& plan, const LateUpdate& late);
/// Keeps the new value until the old one is not needed any more, and then copies it: many values in one
/// launch. Its address thus stays from run to run.
void write_later(Plan& plan, const LateUpdate& late);

}  // namespace athanor
