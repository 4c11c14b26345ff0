// Where a plan may be left after a request to stop.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>

#include "athanor/base/clock.h"
#include "athanor/compile/plan.h"

namespace athanor {

/// Leaves a plan after a request to stop, between two steps and while all inputs are whole. Devices other
/// than the host run later than the launches. So the host waits for each step of a plan that takes long
/// there. Whether a plan takes long is measured when it runs for the first time.
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
