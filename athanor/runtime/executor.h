// The executor: runs a plan on device memory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/runtime/replays.h"

namespace athanor {

/// What the runs of one plan leave for later ones.
struct PlanHistory {
  Replays replays;
  /// Whether the first run that could be interrupted took long; none before it.
  std::optional<bool> runs_long;
};

/// Gives back the memory that this thread's plans keep for their temporaries, until the next plan runs.
void release_arenas();

/// How often and how long a step ran, in wall seconds, for `athanor explain --profile` and benchmarks.
struct StepTime {
  int64_t runs = 0;
  double seconds = 0;
};

struct ExecuteOptions {
  /// Throws Error(numeric) at the first step that makes a NaN or an infinity from inputs without any.
  bool check_nan = false;
  /// Launches that ran before with the same addresses are replayed.
  bool replay = true;
  /// If given: each step is waited for, and its time is added here.
  std::vector<StepTime>* times = nullptr;
};

/// Runs every step of the plan. `inputs[i]` is bound to plan input i. Returns the outputs: new memory, or the
/// memory of a donated input that an output takes over. Throws Error naming the plan step and the user's
/// line; if there is no memory, the step that needs it. After an error, `begun` is the number of steps that
/// had been started.
std::vector<std::shared_ptr<Storage>> execute(const Plan& plan,
                                              std::span<const std::shared_ptr<Storage>> inputs,
                                              const ExecuteOptions& options, PlanHistory& history,
                                              size_t& begun);

}  // namespace athanor
