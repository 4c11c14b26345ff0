#include "athanor/doctor/plan_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

constexpr Vendor vendors[] = {Vendor::nvidia, Vendor::amd, Vendor::intel};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

// "4090" may be part of a name, "7" is the number of a GPU.
constexpr size_t shortest_number_of_a_name = 3;

std::string what_is_here(const Facts& facts) {
  std::vector<std::string> all;
  for (const Gpu& gpu : facts.gpus())
    all.push_back(
        fmt::format("{} {}{}", gpu.index, gpu.title(), gpu.address.empty() ? "" : " at " + gpu.address));
  return all.empty() ? "There is no GPU here; cpu plans for the processor"
                     : "Here are: " + join(all, "; ") + "; cpu";
}

bool goes_by(const Gpu& gpu, const std::string& name) {
  return name == gpu.device || name == gpu.opencl || name == gpu.address || "0000:" + name == gpu.address;
}

// The GPUs that --device means: one, or several of the same kind by their name.
Gpus named(const Facts& facts, const Gpus& among, const std::string& name) {
  const auto unknown = [&](const std::string& what) {
    return Error(ErrorCode::usage, what, "--device", what_is_here(facts));
  };
  size_t number = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = end.ec == std::errc() && end.ptr == name.data() + name.size();
  Gpus found;
  for (const Gpu* gpu : among)
    if (is_number ? gpu->index == number : goes_by(*gpu, lower(name))) found.push_back(gpu);
  if (found.empty() && !name.empty() && (!is_number || name.size() >= shortest_number_of_a_name))
    for (const Gpu* gpu : among)
      if (lower(gpu->title()).find(lower(name)) != std::string::npos) found.push_back(gpu);
  if (found.empty()) throw unknown(fmt::format("there is no GPU '{}' here", name));
  for (const Gpu* gpu : found)
    if (gpu->title() != found.front()->title())
      throw unknown(fmt::format("'{}' may be {} or {}", name, found.front()->title(), gpu->title()));
  return found;
}

Vendor vendor_of(const std::string& name) {
  for (const Vendor vendor : vendors)
    if (lower(name) == to_string(vendor)) return vendor;
  throw Error(ErrorCode::usage, fmt::format("there is no vendor '{}'", name), "--vendor",
              nearest_hint(name, {"amd", "nvidia", "intel"}));
}

// Groups of a vendor's GPUs: all of them; and, because one wheel may not serve all, those of each chip.
void add_with_chips(std::vector<Gpus>& groups, const Gpus& gpus) {
  if (gpus.empty()) return;
  groups.push_back(gpus);
  std::set<std::string> chips;
  for (const Gpu* gpu : gpus) chips.insert(gpu->arch);
  if (chips.size() < 2) return;
  std::set<std::string> done;
  for (const Gpu* first : gpus) {
    if (!done.insert(first->arch).second) continue;
    Gpus same;
    for (const Gpu* gpu : gpus)
      if (gpu->arch == first->arch) same.push_back(gpu);
    groups.push_back(same);
  }
}

std::string what_is_installed(const InstallPlan& plan) {
  return join(plan.packages) + (plan.index.empty() ? "" : " from " + plan.index);
}

// Describes a GPU that the plan is not for, though it could be: `alone` is the plan for it.
void describe_other(PlannedGpu& planned, const Facts& facts, const Gpu& gpu, const InstallPlan& plan,
                    const InstallPlan& alone, const Gpus& used) {
  const bool same_vendor = !used.empty() && used.front()->vendor == gpu.vendor;
  const std::string command = same_vendor
                                  ? fmt::format("--plan {} --device {}", plan.goal, gpu.index)
                                  : fmt::format("--plan {} --vendor {}", plan.goal, to_string(gpu.vendor));
  const Link* broken = alone.broken();
  const bool left_behind = is_left_behind(facts, gpu) && !alone.packages.empty();
  if (broken != nullptr || left_behind) {
    const Text why = left_behind ? left_behind_reason(facts, *last_driver(facts, gpu)) : broken->reason;
    planned.reason = {"not used: " + why.en, "不使用：" + why.zh};
    if (left_behind) {
      const std::string what = what_is_installed(alone);
      planned.reason.en += ". With such a driver: " + what;
      planned.reason.zh += "。换用后可安装：" + what;
    }
    if (used.empty() && plan.broken() == nullptr)
      planned.reason.en += "; this plan is for the CPU", planned.reason.zh += "；本方案只用 CPU";
  } else if (used.empty()) {
    planned.reason = {"not used: this plan is for the CPU; for it: " + command,
                      "不使用：本方案只用 CPU；为它制定方案：" + command};
  } else if (same_vendor && gpu.integrated) {
    planned.reason = {"not used: integrated, beside a discrete one; for it: " + command,
                      "不使用：集成显卡，另有独立显卡；为它制定方案：" + command};
  } else if (!plan.packages.empty() && alone.packages == plan.packages && alone.index == plan.index) {
    planned.reason = {"not used: another one was asked for; what is installed for that serves this one too",
                      "不使用：指定了另一个；为它安装的软件也适用于本 GPU"};
  } else {
    planned.use = PlannedGpu::Use::apart;
    const std::string what = what_is_installed(alone);
    const Text why = same_vendor ? Text{"this installation has no kernels for it", "本环境没有它的内核"}
                                 : Text{"an installation serves one vendor", "一个环境只含一个厂商的内核"};
    planned.reason = {fmt::format("not used: see {}. It needs an environment of its own ({}), because {}",
                                  command, what, why.en),
                      fmt::format("不使用：它需要单独的环境（{}），{}：{}", what, why.zh, command)};
  }
}

}  // namespace

Text not_ours(const Gpu& gpu) {
  if (gpu.driver != "vfio-pci") return {};
  return {"not used: a virtual machine has it (driver vfio-pci)",
          "不使用：它已分配给虚拟机（驱动 vfio-pci）"};
}

Gpus chosen_gpus(const Facts& facts, const PlanChoice& choice) {
  if (lower(choice.device) == "cpu") return {};
  Gpus all;
  for (const Gpu& gpu : facts.gpus()) all.push_back(&gpu);
  if (!choice.vendor.empty()) {
    const Vendor vendor = vendor_of(choice.vendor);
    std::erase_if(all, [&](const Gpu* gpu) { return gpu->vendor != vendor; });
    if (all.empty())
      throw Error(ErrorCode::usage, fmt::format("there is no GPU of {} here", to_string(vendor)), "--vendor",
                  what_is_here(facts));
  }
  return choice.device.empty() ? all : named(facts, all, choice.device);
}

GpuGroups gpu_groups(const Facts& facts, const PlanChoice& choice) {
  GpuGroups found;
  found.asked = !choice.vendor.empty() || !choice.device.empty();
  const Gpus chosen = chosen_gpus(facts, choice);
  if (!choice.device.empty()) {
    found.groups.push_back(chosen);
    return found;
  }
  std::vector<Gpus> discrete, integrated;
  for (const Vendor vendor : vendors) {
    Gpus gpus = computing_gpus(facts, vendor);
    std::erase_if(
        gpus, [&](const Gpu* gpu) { return std::find(chosen.begin(), chosen.end(), gpu) == chosen.end(); });
    if (!gpus.empty()) add_with_chips(gpus.front()->integrated ? integrated : discrete, gpus);
  }
  found.groups = discrete.empty() ? integrated : discrete;
  // If integrated GPUs cannot be used, the plan is for the CPU.
  if (!found.asked && discrete.empty()) found.groups.emplace_back();
  // None can compute: no driver runs them, or a virtual machine has them. A choice is still answered with a
  // plan.
  if (found.groups.empty()) found.groups.push_back(found.asked ? chosen : Gpus());
  return found;
}

void add_gpu_links(InstallPlan& plan) {
  if (plan.gpus.empty()) {
    plan.links.insert(
        plan.links.begin(),
        {"GPU", "-", {"none was found: everything for the CPU", "未发现 GPU：全部使用 CPU 版"}, {}, false});
    return;
  }
  std::vector<Link> links;
  for (size_t i = 0; i < plan.gpus.size();) {
    const PlannedGpu& first = plan.gpus[i];
    size_t end = i;
    while (end < plan.gpus.size() && plan.gpus[end].name == first.name && plan.gpus[end].use == first.use &&
           plan.gpus[end].reason.en == first.reason.en)
      ++end;
    const size_t count = end - i;
    Link link;
    link.part = plan.gpus.size() == 1 ? "GPU"
                : count == 1          ? fmt::format("GPU {}", first.index)
                                      : fmt::format("GPU {}-{}", first.index, plan.gpus[end - 1].index);
    link.value = count == 1 ? first.name : fmt::format("{} x {}", count, first.name);
    link.reason = first.reason;
    if (first.use == PlannedGpu::Use::used && !first.place.empty()) {
      link.reason.en += fmt::format(" ({}{})", first.place, count > 1 ? ", ..." : "");
      link.reason.zh += fmt::format("（{}{}）", first.place, count > 1 ? " 等" : "");
    }
    links.push_back(std::move(link));
    i = end;
  }
  plan.links.insert(plan.links.begin(), links.begin(), links.end());
}

void describe_gpus(InstallPlan& plan, const Facts& facts, const Gpus& used, const PlanChoice& choice,
                   const std::function<InstallPlan(const Gpus&)>& alone) {
  for (const Gpu& gpu : facts.gpus()) {
    PlannedGpu planned{
        gpu.index, gpu.title(), gpu.place(), gpu.address, to_string(gpu.vendor), PlannedGpu::Use::unused, {}};
    const bool is_used = std::find(used.begin(), used.end(), &gpu) != used.end();
    if (is_used && plan.broken() == nullptr) {
      planned.use = PlannedGpu::Use::used;
      planned.reason = {"used", "使用"};
    } else if (is_used) {
      planned.reason = {"this plan is for it, but is not possible: see below",
                        "本计划针对它，但无法实现：见下文"};
    } else if (const Text why = not_ours(gpu); !why.en.empty()) {
      planned.reason = why;
    } else if (lower(choice.device) == "cpu") {
      planned.reason = {"not used: the CPU was asked for", "不使用：指定了 CPU"};
    } else if (gpu.vendor == Vendor::other) {
      planned.reason = {"not used: only Athanor takes it, through OpenCL (--plan athanor)",
                        "不使用：只有 Athanor 可通过 OpenCL 使用它（--plan athanor）"};
    } else {
      describe_other(planned, facts, gpu, plan, alone({&gpu}), used);
    }
    plan.gpus.push_back(std::move(planned));
  }
  say_what_hinders(plan, facts);
  add_gpu_links(plan);
}

}  // namespace athanor::doctor
