#include "athanor/compile/spare_scratch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "athanor/base/text.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/contest.h"

namespace athanor {
namespace {

/// The steps that launch kernels which can be chosen, by their problem.
std::map<std::string, std::vector<size_t>> steps_by_problem(const Plan& plan) {
  std::map<std::string, std::vector<size_t>> result;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (const PlanStep& step = plan.steps[s]; step.kind == PlanStep::Kind::launch && step.request)
      result[problem_key(step.device, *step.request)].push_back(s);
  return result;
}

double seconds_of(const PlanStep& step, const Candidate& candidate) {
  const auto found = std::ranges::find(step.measured, candidate.name, &std::pair<std::string, double>::first);
  return found == step.measured.end() ? std::numeric_limits<double>::infinity() : found->second;
}

/// The step's kernel, and the candidates that need less scratch memory and are not known to be wrong: those
/// that were timed come first, by their times. Each needs less than those before it.
std::vector<Candidate> falling(const PlanStep& step, const std::string& key) {
  std::vector<Candidate> all = backend_of(step.device).candidates(step.device.index, *step.request);
  std::erase_if(all, [&](const Candidate& one) {
    const auto known = std::ranges::find(step.left_out, one.name, &LeftOut::name);
    return (known != step.left_out.end() && !known->may_serve) ||
           KernelCache::instance().is_marked(key, one.name);
  });
  std::ranges::stable_sort(all, {}, [&](const Candidate& one) { return seconds_of(step, one); });
  std::vector<Candidate> result{step.kernel};
  for (Candidate& one : all)
    if (one.scratch_bytes < result.back().scratch_bytes) result.push_back(std::move(one));
  return result;
}

}  // namespace

SparedScratch::SparedScratch(Plan& plan) {
  for (const auto& [key, steps] : steps_by_problem(plan)) {
    const PlanStep& first = plan.steps[steps.front()];
    if (first.kernel.scratch_bytes == 0) continue;
    std::vector<Candidate> kernels = falling(first, key);
    if (kernels.size() == 1) continue;
    problems_.push_back({key, std::move(kernels), first.why});
    set(plan, steps, problems_.back(), problems_.back().kernels.size() - 1);
  }
}

void SparedScratch::set(Plan& plan, const std::vector<size_t>& steps, const Problem& problem, size_t number) {
  const Candidate& fast = problem.kernels.front();
  for (const size_t s : steps) {
    PlanStep& step = plan.steps[s];
    step.kernel = problem.kernels[number];
    step.spares_scratch = number > 0;
    step.why = number == 0 ? problem.why
                           : fmt::format("little scratch memory, for the memory limit: {} needs {}",
                                         fast.name, format_bytes(fast.scratch_bytes));
  }
}

void SparedScratch::give_back(Plan& plan, const std::function<bool(const Plan&)>& fits) {
  std::ranges::stable_sort(problems_, {}, [](const Problem& p) { return p.kernels.front().scratch_bytes; });
  auto steps = steps_by_problem(plan);
  for (const Problem& problem : problems_)
    for (size_t number = 0; number < problem.kernels.size(); ++number) {
      set(plan, steps[problem.key], problem, number);
      if (number + 1 == problem.kernels.size() || fits(plan)) break;
    }
}

}  // namespace athanor
