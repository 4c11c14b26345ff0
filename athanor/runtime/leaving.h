// Where a plan may be left when somebody asked to stop.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>

#include "athanor/base/clock.h"
#include "athanor/compile/plan.h"

namespace athanor {

/// Leaves a plan when somebody asked to stop, between two steps and while all inputs are whole. Other devices
/// than the host run behind the launches: a plan that takes long there is waited for step by step, so that it
/// can be left. Which do is seen when they run for the first time.
class Leaving {
 public:
  Leaving(const Plan& plan, std::optional<bool>& runs_long);
  /// `finish` waits for the steps before.
  void before(size_t step, const std::function<void()>& finish) const;
  bool waits() const { return waits_; }
  void end() const;

 private:
  const Plan& plan_;
  std::optional<bool>& runs_long_;
  bool first_ = false, waits_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace athanor
