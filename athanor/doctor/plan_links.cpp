#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/last_driver.h"

namespace athanor::doctor {
std::vector<Version> pythons_here(const Facts& facts) {
  std::vector<Version> all;
  for (const PythonEnvironment& environment : facts.pythons())
    if (const auto version = Version::parse(environment.version); version && !environment.broken)
      all.push_back(version->first(2));
  std::sort(all.rbegin(), all.rend());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Version choose_python(const Facts& facts, const Version& oldest, const std::optional<Version>& newest) {
  for (const Version& version : pythons_here(facts))
    if (version >= oldest && (!newest || version <= *newest)) return version;
  if (newest && newest->at(1) > oldest.at(1))
    return *Version::parse(fmt::format("{}.{}", newest->at(0), newest->at(1) - 1));
  return newest ? *newest : oldest;
}

std::string origin(const char* table) {
  const auto& one = Compatibility::known().origins.at(table);
  return fmt::format("{}, {}", one.source, one.date);
}

Link python_link(const Facts& facts, const Version& python, const std::string& range) {
  const auto here = pythons_here(facts);
  const bool there = std::find(here.begin(), here.end(), python) != here.end();
  Link link{"Python", python.text(), {}, {}, false};
  link.reason = there ? Text{fmt::format("it is on this machine, and fits: {}", range),
                             fmt::format("本机已有，且符合要求：{}", range)}
                      : Text{fmt::format("must be installed; what fits is {}", range),
                             fmt::format("需要安装；符合要求的版本：{}", range)};
  return link;
}

// The version may be unknown for Windows' driver, and on a machine of which only some files were recorded.
Text nvidia_driver_state(const Facts& facts, const Gpus& gpus) {
  if (!facts.nvidia().version.empty()) return {"loaded", "已加载"};
  for (const Gpu* gpu : gpus) {
    if (is_left_behind(facts, *gpu)) return left_behind_reason(facts, *last_driver(facts, *gpu));
    if (gpu->driver == "dxg")
      return {"Windows has it; its version could not be read", "由 Windows 提供；无法读取其版本"};
    if (gpu->driver == "nvidia" || gpu->driver == "?")
      return {"its version could not be read", "无法读取其版本"};
  }
  return {"none is loaded", "当前没有加载"};
}

Link nvidia_driver_link(const Facts& facts, const Gpus& gpus, const std::optional<Version>& needed) {
  const std::string& here = facts.nvidia().version;
  const std::string from = needed ? needed->text() : "?";
  const auto last = last_driver(facts, gpus);
  const std::string wanted = !last ? fmt::format("NVIDIA {} or newer", from)
                             : needed && needed->at(0) <= last->branch
                                 ? fmt::format("NVIDIA {} to {}", from, last->branch)
                                 : fmt::format("NVIDIA, branch {} at most", last->branch);
  Link link{"driver", here.empty() ? wanted : "NVIDIA " + here, {}, {}, false};
  const Text state = nvidia_driver_state(facts, gpus);
  link.reason = {fmt::format("{}; this CUDA needs {} or newer{}", state.en, from,
                             here.empty() ? "" : fmt::format(" ({})", origin("cuda"))),
                 fmt::format("{}；此 CUDA 需要 {} 以上{}", state.zh, from,
                             here.empty() ? "" : fmt::format("（{}）", origin("cuda")))};
  if (!last) return link;
  link.newer = {fmt::format("another GPU: {} is the last branch that runs {}", last->branch, last->chips),
                fmt::format("更换 GPU：{} 是支持 {} 的最后一个分支", last->branch, last->chips)};
  // A loaded driver runs other GPUs, which a change would disturb.
  if (!here.empty() &&
      std::ranges::any_of(gpus, [&](const Gpu* gpu) { return is_left_behind(facts, *gpu); })) {
    link.broken = true;
    link.reason = left_behind_reason(facts, *last);
  }
  return link;
}

Text other_ways(const Facts& facts, const Gpus& gpus) {
  Text ways{"another GPU, Athanor through OpenCL (--plan athanor), or the CPU (--device cpu)",
            "更换 GPU、通过 OpenCL 使用 Athanor（--plan athanor），或只用 CPU（--device cpu）"};
  if (!last_driver(facts, gpus)) ways.en = "a newer driver, " + ways.en, ways.zh = "更新驱动、" + ways.zh;
  return ways;
}

void need_nvidia(InstallPlan& plan, const Facts& facts, const Gpus& gpus,
                 const std::optional<Version>& needed) {
  const auto last = last_driver(facts, gpus);
  const std::string from = needed ? needed->text() : "any";
  plan.driver_test = "nvidia-smi >/dev/null 2>&1";
  plan.driver_hint =
      fmt::format("NVIDIA's driver ({}) does not answer: install it, restart, and see: athanor doctor",
                  last     ? fmt::format("{}, of branch {} at most", from, last->branch)
                  : needed ? from + " or newer"
                           : from);
}

void need_amd(InstallPlan& plan) {
  plan.driver_test = "[ -r /dev/kfd ] && [ -w /dev/kfd ]";
  plan.driver_hint = "/dev/kfd is missing or may not be opened; athanor doctor says why";
}

Link amd_driver_link(const Facts& facts) {
  const bool loaded = facts.has_module("amdgpu");
  return {"driver",
          loaded ? fmt::format("amdgpu, Linux {}", facts.system().kernel) : "amdgpu",
          loaded ? Text{"the kernel's own driver runs it", "由内核自带驱动运行"}
                 : Text{"not loaded; the kernel brings it", "未加载；内核自带"},
          {"a chip newer than the kernel needs a newer kernel", "比内核新的芯片需要更新的内核"},
          false};
}

void add_intel_driver_links(InstallPlan& plan, const Facts& facts, const Gpu& gpu) {
  plan.links.push_back({"driver",
                        gpu.driver.empty() ? "xe or i915" : gpu.driver,
                        gpu.driver.empty()
                            ? Text{"not loaded; athanor doctor says why", "未加载；athanor doctor 会说明原因"}
                            : Text{"the kernel's own driver runs it", "由内核自带驱动运行"},
                        {},
                        false});
  const bool there = !facts.machine().libraries("libze_intel_gpu.so*").empty();
  plan.links.push_back(
      {"Level Zero",
       "libze-intel-gpu1",
       there ? Text{"installed; PyTorch reaches the GPU through it", "已安装；PyTorch 通过它使用 GPU"}
             : Text{"to be installed, of Intel's compute runtime: PyTorch reaches the GPU through it; the "
                    "wheel does not bring it",
                    "需要安装（Intel 计算运行时的一部分）：PyTorch 通过它使用 GPU，wheel 不包含它"},
       {},
       false});
  plan.driver_test = "ls /dev/dri/renderD* >/dev/null 2>&1 && ldconfig -p | grep -q libze_intel_gpu";
  plan.driver_hint =
      "no driver runs the GPU (athanor doctor says why), or Level Zero is missing: sudo apt-get install "
      "libze1 libze-intel-gpu1";
  plan.image_packages = {"libze1", "libze-intel-gpu1"};
}

Link nothing_for_intel(const char* framework) {
  return {framework,
          "-",
          {fmt::format("no maintained release of {} supports Intel GPUs", framework),
           fmt::format("{} 没有仍在维护的、支持 Intel GPU 的版本", framework)},
          {"PyTorch (--plan pytorch), Athanor (--plan athanor), or the CPU (--device cpu)",
           "改用 PyTorch（--plan pytorch）、Athanor（--plan athanor），或只用 CPU（--device cpu）"},
          true};
}

}  // namespace athanor::doctor
