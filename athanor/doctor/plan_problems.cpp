// What keeps a plan's GPUs from working, and no installation of its mends.
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

// Runtimes, libraries and Python packages are what plans install.
bool is_below_installations(const Check& check) {
  return check.layer != "runtime" && check.layer != "library" && check.layer != "python" &&
         check.layer != "goal";
}

void add_needs(const Check& check, std::set<std::string>& ids) {
  for (const std::string& id : check.needs)
    if (const Check* need = check_named(id)) {
      if (is_below_installations(*need)) ids.insert(id);
      add_needs(*need, ids);
    }
}

// A card without a working driver is a warning only where others work.
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
    if (check.layer == "goal" && check.id.starts_with(fmt::format("works.{}", plan.goal)) &&
        check.id != "works.athanor")
      add_needs(check, ids);
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
