// Plans on recorded machines.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "athanor/doctor/plan.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {

using ::athanor::testing::UnpackedMachine;

/// `machine_name`: a machine in tests/machines/doctor.
inline InstallPlan plan_on(const std::string& machine_name, const std::string& goal) {
  const UnpackedMachine machine("doctor/" + machine_name);
  return make_plan(Facts(*machine), goal);
}

/// `name`: a machine in tests/machines, such as "doctor/healthy-rtx4090".
inline InstallPlan plan_with(const std::string& name, const std::string& goal,
                             const PlanChoice& choice = {}) {
  const UnpackedMachine machine(name);
  return make_plan(Facts(*machine), goal, choice);
}

inline const Link& link_of(const InstallPlan& plan, const std::string& part) {
  const auto found =
      std::find_if(plan.links.begin(), plan.links.end(), [&](const Link& link) { return link.part == part; });
  if (found == plan.links.end()) throw std::runtime_error("no link of " + part);
  return *found;
}

inline std::vector<std::string> uses_of(const InstallPlan& plan) {
  std::vector<std::string> uses;
  const auto json = plan_json(plan, Language::en);
  for (const auto& gpu : json.at("gpus")) uses.push_back(gpu.at("use"));
  return uses;
}

}  // namespace athanor::doctor
