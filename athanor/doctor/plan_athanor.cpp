// Athanor itself, which uses GPUs of every vendor through OpenCL, and through CUDA and HIP if they are there.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/opencl_drivers.h"
#include "athanor/doctor/plan_gpus.h"
#include "athanor/doctor/plan_links.h"

namespace athanor::doctor {
namespace {

using State = OpenclUse::State;

void add_once(std::vector<std::string>& list, const std::string& one) {
  if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

void add_link_once(InstallPlan& plan, Link link) {
  const bool known = std::any_of(plan.links.begin(), plan.links.end(), [&](const Link& other) {
    return other.part == link.part && other.value == link.value;
  });
  if (!known) plan.links.push_back(std::move(link));
}

// "driver", or, with GPUs of several vendors, "driver (amd)".
std::string part_of(const Facts& facts, const char* part, const Gpu& gpu) {
  const bool alone =
      std::ranges::all_of(facts.gpus(), [&](const Gpu& other) { return other.vendor == gpu.vendor; });
  return alone ? part : fmt::format("{} ({})", part, to_string(gpu.vendor));
}

const char* opencl_package(Vendor vendor) {
  return vendor == Vendor::amd      ? "mesa-opencl-icd"
         : vendor == Vendor::nvidia ? "nvidia-opencl-icd"
                                    : "intel-opencl-icd";
}

void set_variable(InstallPlan& plan, const std::string& name, const std::string& value) {
  for (auto& [known, said] : plan.variables)
    if (known == name) {
      if (("," + said + ",").find("," + value + ",") == std::string::npos) said += "," + value;
      return;
    }
  plan.variables.emplace_back(name, value);
}

// Adds the compiler of CUDA or HIP if it is missing although their runtime lists the GPU. True if OpenCL is
// needed meanwhile.
bool add_compiler(InstallPlan& plan, const Gpu& gpu, PlannedGpu& planned) {
  if (gpu.without_compiler.empty()) return false;
  const std::string name = gpu.without_compiler == "cuda" ? "NVRTC" : "hipRTC";
  const bool meanwhile = !gpu.opencl.empty();
  add_link_once(
      plan,
      {name,
       "-",
       {fmt::format("missing: {}{}", gpu.compiler_missing, meanwhile ? ". OpenCL is used meanwhile" : ""),
        fmt::format("缺少：{}{}", gpu.compiler_missing, meanwhile ? "。目前使用 OpenCL" : "")},
       {},
       false});
  planned.use = PlannedGpu::Use::used;
  planned.reason = {fmt::format("used, once {} is installed", name), fmt::format("安装 {} 后使用", name)};
  return meanwhile;
}

// Adds the OpenCL driver of one GPU: the installed one, otherwise the one to install.
void add_opencl(InstallPlan& plan, const Facts& facts, const Gpu& gpu, PlannedGpu& planned) {
  if (!add_compiler(plan, gpu, planned) && !gpu.without_compiler.empty()) return;
  if (gpu.opencl.empty() && !gpu.device.empty()) {
    planned.use = PlannedGpu::Use::used;
    planned.reason = {"used: --device " + gpu.device, "使用：--device " + gpu.device};
    return;
  }
  const OpenclUse use = opencl_use(facts, gpu);
  Link link{part_of(facts, "OpenCL", gpu), use.driver, {}, {}, false};
  planned.use = PlannedGpu::Use::used;
  planned.reason = {"used", "使用"};
  if (use.state == State::listed) {
    planned.reason = {"used: --device " + gpu.device, "使用：--device " + gpu.device};
    if (link.value.empty()) link.value = "-";
    link.reason = {"installed, and lists the GPU", "已安装，并列出了该 GPU"};
  } else if (use.state == State::served && opencl_answered(facts)) {
    planned.reason = {"used, once OpenCL lists it: athanor doctor",
                      "使用，但 OpenCL 尚未列出它：athanor doctor"};
    link.reason = {"installed, but does not list the GPU", "已安装，但没有列出该 GPU"};
  } else if (use.state == State::served) {
    link.reason = {"installed; no other driver is needed", "已安装，无需其他驱动"};
  } else if (use.state == State::hidden) {
    link.reason = {fmt::format("installed; Rusticl shows the GPU with {}={}", use.variable, use.value),
                   fmt::format("已安装；设置 {}={} 后 Rusticl 才会列出该 GPU", use.variable, use.value)};
    set_variable(plan, use.variable, use.value);
  } else {
    link.value = opencl_package(gpu.vendor);
    if (!facts.machine().covers(opencl_vendors_folder(facts))) {
      link.reason = {"whether a driver is installed was not recorded", "未记录是否已安装驱动"};
    } else if (gpu.vendor == Vendor::nvidia) {
      link.reason = {"to be installed: a part of NVIDIA's driver", "需要安装：NVIDIA 驱动的一部分"};
    } else {
      link.reason = {"to be installed: no driver for this GPU is", "需要安装：没有支持该 GPU 的驱动"};
      add_once(plan.packages, link.value);
    }
    if (gpu.vendor == Vendor::amd) {
      const std::string value = rusticl_enable_with(facts, rusticl_driver(gpu));
      link.reason.en += fmt::format("; its Rusticl shows the GPU with RUSTICL_ENABLE={}", value);
      link.reason.zh += fmt::format("；其中的 Rusticl 需要 RUSTICL_ENABLE={}", value);
      set_variable(plan, "RUSTICL_ENABLE", value);
    }
  }
  if (!gpu.opencl_hidden_by.empty())
    planned.reason = {"used, once nothing hides it: " + gpu.opencl_hidden_by,
                      "取消隐藏后使用：" + gpu.opencl_hidden_by};
  if (gpu.vendor != Vendor::other && gpu.vendor != Vendor::nvidia)
    add_once(plan.image_packages, opencl_package(gpu.vendor));
  if (gpu.vendor == Vendor::amd && plan.variables.empty())
    plan.image_variables = {{"RUSTICL_ENABLE", rusticl_driver(gpu)}};
  add_link_once(plan, std::move(link));
}

// libOpenCL.so.1, which finds the drivers.
void add_loader(InstallPlan& plan, const Facts& facts) {
  const std::string package = "ocl-icd-libopencl1";
  add_once(plan.packages, package);
  if (opencl_loader(facts).empty() && facts.machine().covers_libraries())
    add_link_once(plan, {"OpenCL",
                         package,
                         {"to be installed: libOpenCL.so.1 is missing", "需要安装：缺少 libOpenCL.so.1"},
                         {},
                         false});
}

void add_driver(InstallPlan& plan, const Facts& facts, const Gpu& gpu, const Gpus& all) {
  if (gpu.vendor == Vendor::nvidia) {
    Gpus gpus = all;
    std::erase_if(gpus, [](const Gpu* one) { return one->vendor != Vendor::nvidia; });
    Link driver = nvidia_driver_link(facts, gpus, std::nullopt);
    const auto last = last_driver(facts, gpus);
    if (facts.nvidia().version.empty())
      driver.value = last ? fmt::format("NVIDIA, branch {} at most", last->branch) : "NVIDIA";
    if (!driver.broken) driver.reason = {"any version that supports the card", "任何支持该显卡的版本"};
    driver.part = part_of(facts, "driver", gpu);
    plan.links.push_back(std::move(driver));
    const std::string others = plan.driver_test;
    need_nvidia(plan, facts, gpus, std::nullopt);
    // Any of them is enough.
    if (!others.empty()) plan.driver_test += " || " + others;
    return;
  }
  plan.links.push_back({part_of(facts, "driver", gpu),
                        gpu.driver.empty() ? "-" : gpu.driver,
                        {"the kernel's own", "内核自带"},
                        {},
                        false});
  plan.driver_test +=
      std::string(plan.driver_test.empty() ? "" : " || ") + "ls /dev/dri/renderD* >/dev/null 2>&1";
  plan.driver_hint = "no driver runs the GPU; athanor doctor says why";
}

}  // namespace

InstallPlan plan_athanor(const Facts& facts, const PlanChoice& choice) {
  InstallPlan plan;
  plan.goal = "athanor";
  plan.packages = {"g++", "cmake", "ninja-build", "ccache", "pkg-config", "git"};
  const Gpus chosen = chosen_gpus(facts, choice);
  // Cards that the driver has dropped do not keep it from running the others.
  Gpus kept = chosen;
  const auto left_behind = [&](const Gpu* gpu) { return is_left_behind(facts, *gpu); };
  const auto is_nvidia = [](const Gpu* gpu) { return gpu->vendor == Vendor::nvidia; };
  if (std::ranges::any_of(chosen, [&](const Gpu* gpu) { return is_nvidia(gpu) && !left_behind(gpu); }))
    std::erase_if(kept, left_behind);
  std::vector<Vendor> vendors;
  for (const Gpu& gpu : facts.gpus()) {
    PlannedGpu planned{
        gpu.index, gpu.title(), gpu.place(), gpu.address, to_string(gpu.vendor), PlannedGpu::Use::unused, {}};
    if (std::find(chosen.begin(), chosen.end(), &gpu) == chosen.end()) {
      planned.reason = {"not used: another device was asked for", "不使用：指定了其他设备"};
    } else if (const Text why = not_ours(gpu); !why.en.empty()) {
      planned.reason = why;
    } else if (std::find(kept.begin(), kept.end(), &gpu) == kept.end()) {
      const Text why_not = left_behind_reason(facts, *last_driver(facts, gpu));
      planned.reason = {"not used: " + why_not.en, "不使用：" + why_not.zh};
    } else if (predates_opencl_drivers(gpu) && gpu.device.empty()) {
      planned.reason = {
          "not used: no OpenCL driver serves Intel's GPUs from before Broadwell; Athanor uses the CPU",
          "不使用：没有支持 Broadwell 之前的 Intel GPU 的 OpenCL 驱动；Athanor 使用 CPU"};
    } else if (gpu.device.empty() && gpu.without_compiler.empty() &&
               opencl_use(facts, gpu).state == State::impossible) {
      planned.reason = own_runtime_asked(facts, gpu)
                           ? Text{"not used: in WSL this vendor's driver has no OpenCL, and neither CUDA nor "
                                  "HIP lists the GPU; Athanor uses the CPU",
                                  "不使用：WSL 中该厂商的驱动没有 OpenCL，CUDA 和 HIP 也没有列出该 "
                                  "GPU；Athanor 使用 CPU"}
                           : Text{"not used: in WSL this vendor's driver has no OpenCL, and whether CUDA or "
                                  "HIP lists the GPU is not known; this plan is for the CPU",
                                  "不使用：WSL 中该厂商的驱动没有 OpenCL，CUDA 或 HIP "
                                  "是否列出该 GPU 未知；此方案只用 CPU"};
    } else if (gpu.vendor == Vendor::other && gpu.device.empty()) {
      planned.reason = {"not used: no backend lists it, and no driver for it is known here",
                        "不使用：没有后端列出它，也没有已知的驱动"};
    } else {
      if (std::find(vendors.begin(), vendors.end(), gpu.vendor) == vendors.end()) {
        vendors.push_back(gpu.vendor);
        add_driver(plan, facts, gpu, kept);
      }
      add_opencl(plan, facts, gpu, planned);
    }
    plan.gpus.push_back(std::move(planned));
  }
  if (vendors.empty())
    plan.links.push_back({"backend", "CPU", {"always there", "始终可用"}, {}, false});
  else
    add_loader(plan, facts);
  if (plan.broken() != nullptr)
    for (PlannedGpu& gpu : plan.gpus)
      if (gpu.use == PlannedGpu::Use::used)
        gpu.use = PlannedGpu::Use::unused,
        gpu.reason = {"this plan is for it, but is not possible: see below",
                      "本计划针对它，但无法实现：见下文"};
  for (const auto& [name, value] : plan.variables)
    plan.links.push_back({"variable",
                          fmt::format("{}={}", name, value),
                          {"Mesa's Rusticl shows devices of the drivers that it names, and no others",
                           "Mesa 的 Rusticl 只显示其中列出的驱动的设备"},
                          {},
                          false});
  const bool several = std::ranges::count(plan.gpus, PlannedGpu::Use::used, &PlannedGpu::use) > 1;
  plan.links.push_back({"Athanor",
                        ATHANOR_VERSION,
                        several ? Text{"this one; each run trains on one device (--device)",
                                       "当前版本；每次训练使用一个设备（--device）"}
                                : Text{"this one", "当前版本"},
                        {},
                        false});
  say_what_hinders(plan, facts);
  add_gpu_links(plan);
  return plan;
}

}  // namespace athanor::doctor
