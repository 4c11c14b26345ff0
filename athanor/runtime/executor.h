// The executor: runs a plan on device memory.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"

namespace athanor {

/// Runs every step of the plan. `inputs[i]` is bound to plan input i; gives the outputs: fresh memory, or the
/// donated input's that an output takes over. Throws Error naming the plan step and the user's line. With
/// `check_nan`, throws Error(numeric) at the first step whose result has a NaN or an infinity where its
/// inputs had none. After an error, `begun` says how many steps had been started.
std::vector<std::shared_ptr<Storage>> execute(const Plan& plan,
                                              std::span<const std::shared_ptr<Storage>> inputs,
                                              bool check_nan, size_t& begun);

/// How often and how long each step ran: wall seconds, for `athanor explain --profile` and benches.
struct StepTime {
  int64_t runs = 0;
  double seconds = 0;
};
/// While one lives, execute() on this thread times every step of the plans it runs; `times(plan)` is by step.
class ScopedProfile {
 public:
  ScopedProfile();
  ~ScopedProfile();
  ScopedProfile(const ScopedProfile&) = delete;
  ScopedProfile& operator=(const ScopedProfile&) = delete;
  const std::vector<StepTime>& times(const Plan& plan) const;
};

}  // namespace athanor
