// Evaluation: pending tensors become a plan, which is looked up or compiled, and then run.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/graph/tensor.h"
#include "athanor/runtime/executor.h"

namespace athanor {

/// What evaluation has done on this thread.
struct EvaluationStats {
  int64_t plans_compiled = 0, plans_reused = 0;
  int64_t plans_replayed = 0;  // runs that were given to the device in one call
  // for collecting the graph and looking the plan up, in evaluations that reused a plan
  double rebuild_seconds = 0;
  double compile_seconds = 0, run_seconds = 0;
  double timing_seconds = 0;   // of the time for compiling, spent timing candidates
  int64_t problems_timed = 0;  // whose candidates were timed
};
const EvaluationStats& evaluation_stats();
void reset_evaluation_stats();

/// The plan that the last evaluation on this thread ran; nullptr before the first.
std::shared_ptr<const Plan> last_plan();
/// While one exists, evaluations on this thread time every step of their plans.
class ScopedProfile {
 public:
  ScopedProfile();
  ~ScopedProfile();
  ScopedProfile(const ScopedProfile&) = delete;
  ScopedProfile& operator=(const ScopedProfile&) = delete;
  /// The times of the plan's steps; {} if it has not run since.
  std::vector<StepTime>& times(const std::shared_ptr<const Plan>& plan) { return times_[plan]; }

 private:
  ScopedProfile* outer_;
  std::map<std::shared_ptr<const Plan>, std::vector<StepTime>> times_;
};

/// Forgets cached plans of this thread.
void clear_plan_cache();

/// Forgets this thread's cached plans that have a kernel for one of these problems (problem_key() in
/// kernels/contest.h): they are compiled again, with the kernels that are chosen then. The device must have
/// finished its work.
void forget_plans_with(const std::set<std::string>& problems);

/// The plan that evaluating these values, and everything pending with them, would run. Does not run it.
std::shared_ptr<const Plan> plan_for(const std::vector<Tensor>& values);

}  // namespace athanor
