// Which GPUs a plan is for, and what it says about each.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/doctor/plan.h"

namespace athanor::doctor {

using Gpus = std::vector<const Gpu*>;

/// What a plan is tried for, in this order. Each is of one vendor; the last may be empty: for the CPU.
struct GpuGroups {
  std::vector<Gpus> groups;
  bool asked = false;  // by --vendor or --device
};

/// Throws Error(usage) for a choice that fits nothing here, with what there is.
GpuGroups gpu_groups(const Facts& facts, const PlanChoice& choice);

/// All GPUs of a choice, of several vendors too: for Athanor, which takes all of them.
Gpus chosen_gpus(const Facts& facts, const PlanChoice& choice);

/// Why a plan cannot use a GPU: it was given to a virtual machine. Otherwise empty.
Text not_ours(const Gpu& gpu);

/// Fills plan.gpus for a plan that is for `used`, and puts a link of each before the others; equal ones
/// together. `alone` makes the same goal's plan for other GPUs.
void describe_gpus(InstallPlan& plan, const Facts& facts, const Gpus& used, const PlanChoice& choice,
                   const std::function<InstallPlan(const Gpus&)>& alone);
/// Says of the GPUs that a plan uses which of doctor's problems keeps them from working, and no installation
/// mends: a missing kernel driver, a device file that the user may not open, a variable that hides them.
void say_what_hinders(InstallPlan& plan, const Facts& facts);
/// Puts the links of plan.gpus before the others.
void add_gpu_links(InstallPlan& plan);

}  // namespace athanor::doctor
