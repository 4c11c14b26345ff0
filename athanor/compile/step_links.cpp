#include "athanor/compile/step_links.h"

#include <numeric>

namespace athanor {

StepLinks::StepLinks(const Plan& plan) : writer(plan.values.size(), -1), readers(plan.values.size()) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    for (const int v : step.writes) writer[static_cast<size_t>(v)] = static_cast<int>(s);
    for (const auto* list : {&step.reads, &step.after})
      for (const int v : *list) readers[static_cast<size_t>(v)].insert(static_cast<int>(s));
  }
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
