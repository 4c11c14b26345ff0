// The executor: runs a plan on device memory.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/runtime/replays.h"

namespace athanor {

/// Runs every step of the plan. `inputs[i]` is bound to plan input i. Returns the outputs: new memory, or the
/// memory of a donated input that an output takes over. Throws Error naming the plan step and the user's
/// line. With `check_nan`, throws Error(numeric) at the first step that makes a NaN or an infinity from
/// inputs without any. After an error, `begun` is the number of steps that had been started. With `replays`,
/// which belong to the plan, launches that ran before with the same addresses are replayed.
std::vector<std::shared_ptr<Storage>> execute(const Plan& plan,
                                              std::span<const std::shared_ptr<Storage>> inputs,
                                              bool check_nan, size_t& begun, Replays* replays);

/// How often and how long each step ran, in wall seconds, for `athanor explain --profile` and benchmarks.
struct StepTime {
  int64_t runs = 0;
  double seconds = 0;
};
/// While one exists, execute() on this thread times every step of its plans; `times(plan)` lists them by
/// step.
class ScopedProfile {
 public:
  ScopedProfile();
  ~ScopedProfile();
  ScopedProfile(const ScopedProfile&) = delete;
  ScopedProfile& operator=(const ScopedProfile&) = delete;
  const std::vector<StepTime>& times(const Plan& plan) const;
};

}  // namespace athanor
