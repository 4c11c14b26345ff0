// Links that several plans share, and the plans that make_plan chooses from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/doctor/plan_gpus.h"

namespace athanor::doctor {

/// The minor versions of the installed Pythons, newest first.
std::vector<Version> pythons_here(const Facts& facts);
/// One Python of a range: an installed one; otherwise the newest but one of the range, because the packages
/// that a framework needs are sure to have wheels for it.
Version choose_python(const Facts& facts, const Version& oldest, const std::optional<Version>& newest);
/// "SOURCE, DATE" of a table of the compatibility data.
std::string origin(const char* table);

Link python_link(const Facts& facts, const Version& python, const std::string& range);
/// The link for these GPUs. Broken if the loaded driver has dropped one of them.
Link nvidia_driver_link(const Facts& facts, const Gpus& gpus, const std::optional<Version>& needed);
Link amd_driver_link(const Facts& facts);
/// The kernel's driver, and Level Zero, through which PyTorch reaches Intel's GPUs.
void add_intel_driver_links(InstallPlan& plan, const Facts& facts, const Gpu& gpu);
/// Alternatives if no wheel runs both on these GPUs and with a driver for them.
Text other_ways(const Facts& facts, const Gpus& gpus);
/// Adds the tests that a script makes before it installs anything.
void need_nvidia(InstallPlan& plan, const Facts& facts, const Gpus& gpus,
                 const std::optional<Version>& needed);
void need_amd(InstallPlan& plan);

// For GPUs of one vendor, or for the CPU if the list is empty.
void plan_pytorch(InstallPlan& plan, const Facts& facts, const Gpus& gpus);
void plan_tensorflow(InstallPlan& plan, const Facts& facts, const Gpus& gpus);
void plan_jax(InstallPlan& plan, const Facts& facts, const Gpus& gpus);
InstallPlan plan_athanor(const Facts& facts, const PlanChoice& choice);
/// The link of a framework that has nothing for Intel's GPUs.
Link nothing_for_intel(const char* framework);

/// TensorFlow and JAX use the machine's ROCm, of a release ("7.2") that a script looks for and that an image
/// has. Adds its link.
void plan_rocm(InstallPlan& plan, const std::string& release, const Text& reason, const Text& newer);

/// Adds a link on whether there is room for what the plan installs: on the disk, in memory and in these GPUs'
/// memory.
void plan_room(InstallPlan& plan, const Facts& facts, const std::vector<const Gpu*>& gpus);

}  // namespace athanor::doctor
