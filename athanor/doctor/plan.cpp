#include "athanor/doctor/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/doctor/plan_links.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {

void plan_athanor(InstallPlan& plan, const Facts& facts) {
  const auto gpus = computing_gpus(facts);
  plan.links.push_back(gpu_link(gpus));
  plan.packages = {"g++", "cmake", "ninja-build", "ccache", "pkg-config", "git"};
  if (gpus.empty()) {
    plan.links.push_back({"backend", "CPU", {"always there", "始终可用"}, {}, false});
  } else {
    const Vendor vendor = gpus.front()->vendor;
    const char* icd = vendor == Vendor::amd      ? "mesa-opencl-icd"
                      : vendor == Vendor::nvidia ? "nvidia-opencl-icd"
                                                 : "intel-opencl-icd";
    if (vendor == Vendor::nvidia) {
      Link driver = nvidia_driver_link(facts, std::nullopt);
      if (facts.nvidia().module_version.empty())
        driver.value = driver.newer.en.empty()
                           ? "NVIDIA"
                           : fmt::format("NVIDIA, branch {} at most", last_nvidia_driver(facts)->branch);
      if (!driver.broken) driver.reason = {"any that serves the card", "任何支持该显卡的版本"};
      plan.links.push_back(std::move(driver));
      need_nvidia(plan, facts, std::nullopt);
    } else {
      plan.links.push_back({"driver",
                            gpus.front()->driver.empty() ? "-" : gpus.front()->driver,
                            {"the kernel's own", "内核自带"},
                            {},
                            false});
      plan.driver_test = "ls /dev/dri/renderD* >/dev/null 2>&1";
      plan.driver_hint = "no driver runs the GPU; athanor doctor says why";
    }
    plan.links.push_back(
        {"OpenCL",
         icd,
         {"Athanor uses GPUs of every vendor through OpenCL 1.2", "Athanor 通过 OpenCL 1.2 使用各厂商的 GPU"},
         {"CUDA and HIP backends are planned", "CUDA 和 HIP 后端在计划中"},
         false});
    // NVIDIA's driver brings its own.
    if (vendor != Vendor::nvidia) plan.packages.emplace_back(icd);
    plan.packages.emplace_back("ocl-icd-libopencl1");
  }
  plan.links.push_back({"Athanor", ATHANOR_VERSION, {"this one", "当前版本"}, {}, false});
}

const Link* InstallPlan::broken() const {
  const auto link = std::find_if(links.begin(), links.end(), [](const Link& one) { return one.broken; });
  return link == links.end() ? nullptr : &*link;
}

InstallPlan make_plan(const Facts& facts, const std::string& goal) {
  InstallPlan plan;
  plan.goal = goal;
  if (goal == "pytorch")
    plan_pytorch(plan, facts);
  else if (goal == "tensorflow")
    plan_tensorflow(plan, facts);
  else if (goal == "jax")
    plan_jax(plan, facts);
  else if (goal == "athanor")
    plan_athanor(plan, facts);
  else
    throw Error(ErrorCode::usage, fmt::format("there is no plan for '{}'", goal), "--plan",
                nearest_hint(goal, {"pytorch", "tensorflow", "jax", "athanor"}));
  if (plan.image.empty())
    plan.image = plan.python.empty() ? "debian:12" : fmt::format("python:{}-slim", plan.python);
  return plan;
}

}  // namespace athanor::doctor
