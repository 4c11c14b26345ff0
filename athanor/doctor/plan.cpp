#include "athanor/doctor/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/doctor/plan_gpus.h"
#include "athanor/doctor/plan_links.h"

namespace athanor::doctor {
namespace {

using Planner = void (*)(InstallPlan&, const Facts&, const Gpus&);

Planner planner_of(const std::string& goal) {
  if (goal == "pytorch") return plan_pytorch;
  if (goal == "tensorflow") return plan_tensorflow;
  if (goal == "jax") return plan_jax;
  return nullptr;
}

InstallPlan planned(const Facts& facts, const std::string& goal, const Gpus& gpus) {
  InstallPlan plan;
  plan.goal = goal;
  if (!gpus.empty() && gpus.front()->vendor == Vendor::other) {
    plan.links.push_back({"GPU",
                          gpus.front()->name,
                          {"only Athanor takes it, through OpenCL", "只有 Athanor 可通过 OpenCL 使用它"},
                          {"Athanor (--plan athanor), or the CPU (--device cpu)",
                           "改用 Athanor（--plan athanor），或只用 CPU（--device cpu）"},
                          true});
    return plan;
  }
  planner_of(goal)(plan, facts, gpus);
  return plan;
}

// The plan for the first group with which it is possible; if there is none, for the first group.
InstallPlan plan_framework(const Facts& facts, const std::string& goal, const PlanChoice& choice) {
  const GpuGroups all = gpu_groups(facts, choice);
  const Gpus* used = &all.groups.front();
  InstallPlan plan = planned(facts, goal, *used);
  for (const Gpus& group : all.groups) {
    if (plan.broken() == nullptr) break;
    InstallPlan other = planned(facts, goal, group);
    if (other.broken() == nullptr) plan = std::move(other), used = &group;
  }
  describe_gpus(plan, facts, *used, choice, [&](const Gpus& gpus) { return planned(facts, goal, gpus); });
  return plan;
}

}  // namespace

const Link* InstallPlan::broken() const {
  const auto link = std::find_if(links.begin(), links.end(), [](const Link& one) { return one.broken; });
  return link == links.end() ? nullptr : &*link;
}

InstallPlan make_plan(const Facts& facts, const std::string& goal, const PlanChoice& choice) {
  if (goal != "athanor" && planner_of(goal) == nullptr)
    throw Error(ErrorCode::usage, fmt::format("there is no plan for '{}'", goal), "--plan",
                nearest_hint(goal, {"pytorch", "tensorflow", "jax", "athanor"}));
  InstallPlan plan = goal == "athanor" ? plan_athanor(facts, choice) : plan_framework(facts, goal, choice);
  plan.name = plan.goal;
  for (const PlannedGpu& gpu : plan.gpus)
    if (gpu.use == PlannedGpu::Use::used && plan.name == plan.goal &&
        std::any_of(plan.gpus.begin(), plan.gpus.end(),
                    [&](const PlannedGpu& other) { return other.vendor != gpu.vendor; }))
      plan.name += "-" + gpu.vendor;
  std::vector<const Gpu*> used;
  for (const PlannedGpu& planned : plan.gpus)
    for (const Gpu& gpu : facts.gpus())
      if (planned.use == PlannedGpu::Use::used && gpu.index == planned.index) used.push_back(&gpu);
  plan_room(plan, facts, used);
  if (plan.image.empty())
    plan.image = plan.python.empty() ? "debian:12" : fmt::format("python:{}-slim", plan.python);
  return plan;
}

}  // namespace athanor::doctor
