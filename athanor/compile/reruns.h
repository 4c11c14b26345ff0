// Reruns: steps of a plan that run again late, so that their results need not be kept.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/compile/step_times.h"

namespace athanor {

/// The values that can be recomputed in a plan whose kernels are chosen, and what this costs and saves. The
/// order of the plan's steps stays. A rerun is added right before the first step that needs it. It runs the
/// same kernel on the same inputs, or a loop cut down to the elementwise values that are needed. A loop's
/// reductions do not run again, so results stay the same, bit for bit.
class Reruns {
 public:
  explicit Reruns(const Plan& plan);

  /// How a value is provided late in the plan.
  enum class How : uint8_t {
    kept,
    again,   // recomputed for the steps after the longest interval in which no step reads it
    needed,  // no late step of the plan reads it, but it is recomputed for values that depend on it
  };
  using Selection = std::vector<How>;  // by value

  /// The selection that the user asked for by nn::checkpoint: all values of segments except their results.
  Selection by_hand() const;
  /// Values that may be computed again.
  const std::vector<int>& candidates() const { return candidates_; }
  /// The selection with this value added, and with the large values that it is computed from, which would
  /// otherwise have to be kept for it.
  Selection with(const Selection& selection, int value) const;

  struct Outcome {
    bool possible = true;             // false: an input is overwritten before it would be read again
    double seconds = 0;               // the time of the reruns
    std::vector<int64_t> alive = {};  // bytes of temporaries and scratch at each step
    /// The excess over `target`, summed over steps.
    int64_t excess(int64_t target) const;
  };
  Outcome outcome(const Selection& selection, Device device) const;
  /// The plan with these reruns. Its values are not placed yet, and loops that were cut down have no kernels.
  Plan apply(const Selection& selection) const;
  const StepTimes& times() const { return times_; }
  double rerun_seconds(int value) const { return seconds_[static_cast<size_t>(value)]; }

 private:
  /// A step of the plan, or the rerun that recomputes a value.
  struct Item {
    int step = -1, rerun = -1;
  };
  struct Run {
    std::vector<Item> items;
    // The first and last items that use each of n values; at value + n: its recomputed value; -1: none.
    std::vector<int> first, last;
    bool possible = true;
    double seconds = 0;
  };
  Run run(const Selection& selection) const;
  int value_for(const Selection& selection, const Run& run, int value, int step) const;
  bool is_late(const Selection& selection, int value, int step) const;
  void make(const Selection& selection, Run& run, int value, int step) const;
  void add(Run& run, Item item, const std::vector<int>& reads, const std::vector<int>& writes) const;
  void note_uses();
  void make_rerun(int value);
  std::optional<PlanStep> cut_loop(const PlanStep& step, int value) const;
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int count() const { return static_cast<int>(plan_.values.size()); }

  const Plan& plan_;
  std::vector<int> writer_, last_read_, gap_begin_, gap_end_, overwritten_;  // steps, by value
  std::vector<std::optional<PlanStep>> reruns_;                              // by value
  std::vector<double> seconds_;                                              // the reruns' times
  std::vector<int> candidates_;
  StepTimes times_;
};

}  // namespace athanor
