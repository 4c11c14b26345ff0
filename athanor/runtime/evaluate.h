// Evaluation: pending tensors become a plan, looked up or compiled, and run.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/graph/tensor.h"

namespace athanor {

/// What evaluation has done on this thread.
struct EvaluationStats {
  int64_t plans_compiled = 0, plans_reused = 0;
  double rebuild_seconds = 0;  // collecting the graph and looking the plan up, of evaluations that reused one
  double compile_seconds = 0, run_seconds = 0;
};
const EvaluationStats& evaluation_stats();
void reset_evaluation_stats();

/// The plan that the last evaluation on this thread ran; nullptr before the first.
std::shared_ptr<const Plan> last_plan();
/// Forgets cached plans of this thread.
void clear_plan_cache();

/// The plan that evaluating these values (and everything pending with them) would run, without running it.
std::shared_ptr<const Plan> plan_for(const std::vector<Tensor>& values);

}  // namespace athanor
