// How long the steps of a plan take, by measurements on this machine.
#pragma once
#include <map>
#include <utility>

#include "athanor/compile/plan.h"

namespace athanor {

class StepTimes {
 public:
  /// Seconds of the chosen kernel if it was timed; otherwise from arithmetic and bytes, at the best rates
  /// that any kernel of the device has reached.
  double seconds(const PlanStep& step) const;
  /// Of all steps, one after the other.
  double seconds(const Plan& plan) const;
  /// False after a device without rates, on which nothing was timed: seconds are then only proportional.
  bool known() const { return known_; }

 private:
  mutable std::map<Device, std::pair<double, double>> rates_;  // FLOP/s and B/s
  mutable bool known_ = true;
};

}  // namespace athanor
