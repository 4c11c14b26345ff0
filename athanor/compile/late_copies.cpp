// Copies of inputs to another device (state that is kept elsewhere) run late, because a copied value takes
// memory from then on. They still run ahead of the kernels that need them, so that the two overlap.
#include <algorithm>
#include <map>
#include <utility>

#include "athanor/compile/plan.h"

namespace athanor {
namespace {

// A copy is given to its queue this many kernels before the kernel that needs it.
constexpr int kernels_ahead = 4;

bool copies_an_input(const Plan& plan, const PlanStep& step) {
  return step.kind == PlanStep::Kind::copy &&
         plan.values[static_cast<size_t>(step.reads.front())].kind == PlanValue::Kind::input;
}

}  // namespace

void delay_copies(Plan& plan) {
  std::vector<PlanStep> kept, copies;
  for (PlanStep& step : plan.steps) (copies_an_input(plan, step) ? copies : kept).push_back(std::move(step));
  std::map<int, int> first_use;  // for each value: a position in `kept`
  for (int s = static_cast<int>(kept.size()) - 1; s >= 0; --s)
    for (const auto* list : {&kept[static_cast<size_t>(s)].reads, &kept[static_cast<size_t>(s)].after})
      for (const int v : *list) first_use[v] = s;
  std::multimap<int, size_t> before;  // a position in `kept`, and a copy that runs before that step
  for (size_t c = 0; c < copies.size(); ++c) {
    const auto use = first_use.find(copies[c].writes.front());
    const int at = use == first_use.end() ? static_cast<int>(kept.size()) : use->second;
    before.emplace(std::max(0, at - kernels_ahead), c);
  }
  plan.steps.clear();
  auto next = before.begin();
  for (int s = 0; s <= static_cast<int>(kept.size()); ++s) {
    for (; next != before.end() && next->first <= s; ++next)
      plan.steps.push_back(std::move(copies[next->second]));
    if (s < static_cast<int>(kept.size())) plan.steps.push_back(std::move(kept[static_cast<size_t>(s)]));
  }
}

}  // namespace athanor
