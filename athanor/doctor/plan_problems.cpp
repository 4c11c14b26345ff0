// Problems that keep a plan's GPUs from working, and that no installation solves.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/plan_gpus.h"

namespace athanor::doctor {
namespace {

const Check* check_named(const std::string& id) {
  const auto found = std::ranges::find(checks(), id, &Check::id);
  return found == checks().end() ? nullptr : &*found;
}

// Plans of frameworks install Python packages; Athanor's plan covers runtimes and libraries.
bool is_mended_by(const InstallPlan& plan, const Check& check) {
  const bool of_athanor = check.layer == "runtime" || check.layer == "library";
  return check.layer == "goal" || (plan.goal == "athanor" ? of_athanor : check.layer == "python");
}

void add_needs(const InstallPlan& plan, const Check& check, std::set<std::string>& ids) {
  for (const std::string& id : check.needs)
    if (const Check* need = check_named(id)) {
      if (!is_mended_by(plan, *need)) ids.insert(id);
      add_needs(plan, *need, ids);
    }
}

// "works.jax.amd" is no goal of a plan for other vendors' GPUs.
bool is_goal_of(const InstallPlan& plan, const Check& check) {
  if (check.layer != "goal" || check.id == "works.athanor" || !check.id.starts_with("works." + plan.goal))
    return false;
  for (const char* vendor : {"amd", "nvidia", "intel"})
    if (check.id.ends_with(std::string(".") + vendor))
      return std::ranges::any_of(plan.gpus, [&](const PlannedGpu& gpu) {
        return gpu.vendor == vendor && gpu.use == PlannedGpu::Use::used;
      });
  return true;
}

// A card without a working driver is only a warning if others work.
bool hinders(const Result& result) {
  return result.verdict == Verdict::problem ||
         (result.verdict == Verdict::warning && result.check->layer == "driver");
}

bool is_about(const Result& problem, const PlannedGpu& gpu) {
  const std::string& id = problem.check->id;
  for (const char* vendor : {"amd", "nvidia", "intel"}) {
    const bool named = id.starts_with(std::string(vendor) + ".") || id.ends_with(std::string(".") + vendor);
    if (named && gpu.vendor != vendor) return false;
  }
  const auto named = problem.finding.values.find("gpu");
  return named == problem.finding.values.end() || gpu.name.starts_with(named->second) ||
         named->second.starts_with(gpu.name) || id.starts_with("container.");
}

}  // namespace

void say_what_hinders(InstallPlan& plan, const Facts& facts) {
  std::set<std::string> ids;
  for (const Check& check : checks())
    if (is_goal_of(plan, check)) add_needs(plan, check, ids);
  const Diagnosis diagnosis = diagnose(checks(), facts, ids);
  for (PlannedGpu& gpu : plan.gpus) {
    if (gpu.use != PlannedGpu::Use::used) continue;
    for (const Result& problem : diagnosis.results)
      if (hinders(problem) && is_about(problem, gpu)) {
        const auto title = [&](Language language) { return problem.text(problem.check->title, language); };
        gpu.reason = {fmt::format("used, once this is mended (athanor doctor): {}", title(Language::en)),
                      fmt::format("解决以下问题后使用（athanor doctor）：{}", title(Language::zh))};
        break;
      }
  }
}

}  // namespace athanor::doctor
