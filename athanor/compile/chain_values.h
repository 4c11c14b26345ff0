// Values that only the loops of one chain read.
#pragma once
#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"

namespace athanor {

/// Full-size values that a loop of the chain writes and that only its later loops read, element by element,
/// are computed again by these instead of stored, if that takes few steps: what it reads is in caches.
/// `links`: those of the plan.
void recompute_in_chain(Plan& plan, PlanStep& chain, const StepLinks& links);

}  // namespace athanor
