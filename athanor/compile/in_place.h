// Updates in place: which outputs take over the memory of donated inputs.
#pragma once
#include <vector>

#include "athanor/compile/plan.h"

namespace athanor {

/// A loop of a step, and the value of each of its buffers; -1: the buffer is no value.
struct Walk {
  const LoopProgram& program;
  std::vector<int> values;
  bool sums_rows = false;  // of a chain: whether it sums all rows, so that its end runs behind the others
  int value_of(int operand) const {
    return values[static_cast<size_t>(program.operands[static_cast<size_t>(operand)].buffer)];
  }
};
/// A step's loops, which run at the same time (those of a chain one after the other), or its contraction's
/// epilogue.
std::vector<Walk> walks_of(const PlanStep& s);
/// Whether `out` may take over the memory of `in`: every loop of the step that reads `in` also writes `out`,
/// and walks both in the same way. In a chain, sums over rows may overwrite what other loops read.
bool walks_alike(const PlanStep& s, const std::vector<Walk>& walks, int in, int out);

/// An update in place that would come too early, because another step still needs the old value.
struct LateUpdate {
  int step, in, out;
};
/// Lets outputs take over donated inputs from which they are computed, or that are read beside them, element
/// by element. Returns those that can only be written later.
std::vector<LateUpdate> pair_outputs(Plan& plan, const std::vector<bool>& donated);
/// Whether write_later() may be used: only for small values, such as batch norm's weights, and only on
/// devices whose kernels run several loops in one launch.
bool can_write_later(const Plan& plan, const LateUpdate& late);
/// Writes the new value to a temporary and copies it over the old value when that is no longer needed. The
/// copies of many values can share a launch. The value's address thus stays the same from run to run.
void write_later(Plan& plan, const LateUpdate& late);

}  // namespace athanor
