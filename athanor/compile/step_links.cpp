#include "athanor/compile/step_links.h"

#include <algorithm>
#include <numeric>

#include "athanor/base/error.h"

namespace athanor {

StepLinks::StepLinks(const Plan& plan) : writer(plan.values.size(), -1), readers(plan.values.size()) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    for (const int v : step.writes) writer[static_cast<size_t>(v)] = static_cast<int>(s);
    for (const auto* list : {&step.reads, &step.after})
      for (const int v : *list) readers[static_cast<size_t>(v)].insert(static_cast<int>(s));
  }
}

bool StepLinks::reaches_through_others(const Plan& plan, int from, int to) const {
  std::vector<int> stack{from};
  std::set<int> seen;
  while (!stack.empty()) {
    const int s = stack.back();
    stack.pop_back();
    for (const int v : plan.steps[static_cast<size_t>(s)].writes)
      for (const int reader : readers[static_cast<size_t>(v)]) {
        if (s != from && reader == to) return true;
        if (reader != to && seen.insert(reader).second) stack.push_back(reader);
      }
  }
  return false;
}

void order_by_links(Plan& plan, const StepLinks& links, const std::vector<bool>& removed) {
  std::vector<int> waiting(plan.steps.size(), 0);
  std::set<int> ready;
  const auto needed = [&](const PlanStep& step, int s) {
    std::set<int> writers;
    for (const auto* list : {&step.reads, &step.after})
      for (const int v : *list)
        if (const int w = links.writer[static_cast<size_t>(v)]; w >= 0 && w != s) writers.insert(w);
    return writers;
  };
  std::vector<std::vector<int>> later(plan.steps.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (removed[s]) continue;
    for (const int w : needed(plan.steps[s], static_cast<int>(s)))
      later[static_cast<size_t>(w)].push_back(static_cast<int>(s)), ++waiting[s];
    if (waiting[s] == 0) ready.insert(static_cast<int>(s));
  }
  std::vector<PlanStep> ordered;
  while (!ready.empty()) {
    const auto s = static_cast<size_t>(*ready.begin());
    ready.erase(ready.begin());
    for (const int l : later[s])
      if (--waiting[static_cast<size_t>(l)] == 0) ready.insert(l);
    ordered.push_back(std::move(plan.steps[s]));
  }
  if (static_cast<std::ptrdiff_t>(ordered.size()) != std::ranges::count(removed, false))
    throw Error(ErrorCode::internal, "steps of a plan wait for each other");
  plan.steps = std::move(ordered);
}

bool is_in_segment(const Plan& plan, const PlanStep& step) {
  return std::ranges::any_of(step.writes,
                             [&](int v) { return plan.values[static_cast<size_t>(v)].segment.number != 0; });
}

OperandDesc operand_of(const Plan& plan, const BufferRef& ref) {
  const PlanValue& value = plan.values[static_cast<size_t>(ref.value)];
  const TensorType& type = value.type;
  return {
      type.dtype,
      type.shape,
      {},
      value.layout.is_channels_last() ? channels_last_strides(type.shape) : contiguous_strides(type.shape),
      std::gcd(ref.byte_offset, OperandDesc::whole_vectors)};
}

}  // namespace athanor
