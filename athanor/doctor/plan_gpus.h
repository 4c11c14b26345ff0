// The GPUs that a plan is for, and what it says about each.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/doctor/plan.h"

namespace athanor::doctor {

using Gpus = std::vector<const Gpu*>;

/// The groups that a plan is tried for, in this order. Each is of one vendor; the last may be empty: for the
/// CPU.
struct GpuGroups {
  std::vector<Gpus> groups;
  bool asked = false;  // by --vendor or --device
};

/// Throws Error(usage) for a choice that fits nothing here, naming the GPUs that are here.
GpuGroups gpu_groups(const Facts& facts, const PlanChoice& choice);

/// All GPUs of a choice, also of several vendors: for Athanor, which uses all of them.
Gpus chosen_gpus(const Facts& facts, const PlanChoice& choice);

/// Why a plan cannot use a GPU: it was given to a virtual machine. Otherwise empty.
Text not_ours(const Gpu& gpu);

/// Fills plan.gpus for a plan that is for `used`, and puts their links before the others; equal ones become
/// one link. `alone` makes the plan of the same goal for other GPUs.
void describe_gpus(InstallPlan& plan, const Facts& facts, const Gpus& used, const PlanChoice& choice,
                   const std::function<InstallPlan(const Gpus&)>& alone);
/// Adds the problems found by doctor that keep the plan's GPUs from working and that no installation solves:
/// a missing kernel driver, a device file that the user may not open, a variable that hides them.
void say_what_hinders(InstallPlan& plan, const Facts& facts);
/// Puts the links of plan.gpus before the others.
void add_gpu_links(InstallPlan& plan);

}  // namespace athanor::doctor
