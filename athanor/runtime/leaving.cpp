#include "athanor/runtime/leaving.h"

#include <algorithm>

#include "athanor/base/os/interrupt.h"

namespace athanor {

// Whether one of the first `begun` steps has written over an input: the update must then be finished.
static bool has_overwritten(const Plan& plan, size_t begun) {
  for (size_t s = 0; s < begun; ++s)
    for (const int written : plan.steps[s].writes) {
      const int input = plan.values[static_cast<size_t>(written)].in_place_of;
      if (input >= 0 && plan.values[static_cast<size_t>(input)].kind == PlanValue::Kind::input) return true;
    }
  return false;
}

Leaving::Leaving(const Plan& plan, std::optional<bool>& runs_long) : plan_(plan), runs_long_(runs_long) {
  if (!interrupts_are_held()) return;
  first_ = !runs_long_;
  const bool on_host = std::ranges::all_of(plan.devices, [](Device device) { return device == Device{}; });
  waits_ = !on_host && (first_ || *runs_long_);
}

void Leaving::before(size_t step, const std::function<void()>& finish) const {
  if (!interrupts_are_held()) return;
  if (waits_ && step > 0) finish();
  if (interrupt_signal() != 0 && !has_overwritten(plan_, step)) throw Interrupted();
}

void Leaving::end() const {
  constexpr double long_run = 0.5;  // seconds
  if (first_) runs_long_ = seconds_since(start_) > long_run;
}

}  // namespace athanor
