#include "athanor/compile/step_times.h"

#include <algorithm>

#include "athanor/kernels/cache.h"
#include "athanor/kernels/tuner.h"

namespace athanor {

std::optional<double> StepTimes::timed(const PlanStep& step) {
  for (const auto& [name, seconds] : step.measured)
    if (name == step.kernel.name) return seconds;
  return std::nullopt;
}

double StepTimes::by_rates(const PlanStep& step) const {
  const auto [found, fresh] = rates_.emplace(step.device, std::pair(0.0, 0.0));
  if (fresh) {
    const KernelCache::Peak peak = KernelCache::instance().find_peak(environment_key(step.device));
    found->second = {peak.flops_per_second, peak.bytes_per_second};
  }
  auto [flops, bytes] = found->second;
  if (flops <= 0 || bytes <= 0) known_ = false, flops = 1e11, bytes = 1e10;  // only their ratio counts
  return std::max(static_cast<double>(step.flops) / flops, static_cast<double>(step.bytes) / bytes);
}

double StepTimes::seconds(const PlanStep& step) const {
  const auto found = timed(step);
  return found ? *found : by_rates(step);
}

double StepTimes::seconds(const Plan& plan, double factor) const {
  double sum = 0;
  for (const PlanStep& step : plan.steps) {
    const auto found = timed(step);
    sum += found ? *found : factor * by_rates(step);
  }
  return sum;
}

double StepTimes::seconds_by_rates(const Plan& plan) const {
  double sum = 0;
  for (const PlanStep& step : plan.steps) sum += by_rates(step);
  return sum;
}

}  // namespace athanor
