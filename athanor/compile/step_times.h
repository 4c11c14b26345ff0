// How long the steps of a plan take, by measurements on this machine.
#pragma once
#include <map>
#include <optional>
#include <utility>

#include "athanor/compile/plan.h"

namespace athanor {

class StepTimes {
 public:
  /// Seconds of the chosen kernel if it was timed; otherwise from arithmetic and bytes, at the best rates
  /// that any kernel of the device has reached.
  double seconds(const PlanStep& step) const;
  /// Seconds of all steps, one after the other. Steps that were not timed count `factor` times.
  double seconds(const Plan& plan, double factor = 1) const;
  /// Seconds of all steps as if none had been timed.
  double seconds_by_rates(const Plan& plan) const;
  /// Seconds of the chosen kernel, if it was timed.
  static std::optional<double> timed(const PlanStep& step);
  /// False if a step's device has no known rates, because nothing was timed on it. Seconds are then only
  /// proportional to the real ones.
  bool known() const { return known_; }

 private:
  double by_rates(const PlanStep& step) const;

  mutable std::map<Device, std::pair<double, double>> rates_;  // FLOP/s and B/s
  mutable bool known_ = true;
};

}  // namespace athanor
