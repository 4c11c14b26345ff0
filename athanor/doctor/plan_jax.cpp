#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

using JaxRocm = Compatibility::JaxRocm;

std::string plugin_of(const JaxRocm& row) { return fmt::format("{} {}", row.plugin, row.jax); }

bool has_kernels(const JaxRocm& row, const Gpu* gpu) { return row.targets.contains(gpu->arch); }

// The newest plugin with kernels for every GPU; with `here`, for the installed ROCm.
const JaxRocm* jax_rocm_for(const std::vector<const Gpu*>& gpus, const std::optional<Version>& here) {
  const JaxRocm* found = nullptr;
  for (const JaxRocm& row : Compatibility::known().jax_rocm)
    if ((!here || (here->at(0) == row.major && here->first(2) >= row.rocm)) &&
        std::all_of(gpus.begin(), gpus.end(), [&](const Gpu* gpu) { return has_kernels(row, gpu); }))
      found = &row;
  return found;
}

// Why the installed ROCm cannot be used, if the plan needs another.
Text not_with(const Version& here, const std::vector<const Gpu*>& gpus) {
  for (const JaxRocm& row : Compatibility::known().jax_rocm) {
    if (row.major != here.at(0)) continue;
    if (here.first(2) < row.rocm)
      return {fmt::format("{} is installed, and {} needs {}", here.text(), plugin_of(row), row.rocm.text()),
              fmt::format("已安装 {}，而 {} 需要 {}", here.text(), plugin_of(row), row.rocm.text())};
    const auto without =
        std::find_if(gpus.begin(), gpus.end(), [&](const Gpu* gpu) { return !has_kernels(row, gpu); });
    if (without != gpus.end())
      return {fmt::format("{} is installed, and {} has no kernels for {}", here.text(), plugin_of(row),
                          (*without)->title()),
              fmt::format("已安装 {}，而 {} 没有面向 {} 的内核", here.text(), plugin_of(row),
                          (*without)->title())};
  }
  return {fmt::format("{} is installed, for which no plugin is known", here.text()),
          fmt::format("已安装 {}，没有已知的插件", here.text())};
}

// Why pip's own ROCm does not count: it serves only the environment that it is in, and this plan makes
// another.
Text none_but_of_pip(const Facts& facts) {
  for (const PythonEnvironment& environment : facts.pythons())
    if (const Distribution* rocm = pip_rocm(environment))
      return {fmt::format("{} {} of pip serves {} alone", rocm->name, rocm->version, environment.prefix),
              fmt::format("pip 安装的 {} {} 只用于 {}", rocm->name, rocm->version, environment.prefix)};
  return {"none is installed", "当前没有安装"};
}

void plan_jax_rocm(InstallPlan& plan, const Facts& facts, const std::vector<const Gpu*>& gpus) {
  plan.links.push_back(amd_driver_link(facts));
  need_amd(plan);
  const auto installed = newest_rocm(facts);
  const JaxRocm& newest = Compatibility::known().jax_rocm.back();
  const JaxRocm* row = installed ? jax_rocm_for(gpus, installed->version) : nullptr;
  const bool there = row != nullptr;
  if (!there) row = jax_rocm_for(gpus, std::nullopt);
  if (row == nullptr) {
    const Gpu* without =
        *std::find_if(gpus.begin(), gpus.end(), [&](const Gpu* gpu) { return !has_kernels(newest, gpu); });
    plan.links.push_back(
        {"JAX",
         plugin_of(newest),
         {fmt::format("no release of JAX's plugin has kernels for {} ({})", without->title(), origin("jax")),
          fmt::format("JAX 插件的各版本都没有面向 {} 的内核（{}）", without->title(), origin("jax"))},
         {"another GPU, PyTorch (--plan pytorch), Athanor (--plan athanor), or the CPU (--device cpu)",
          "更换 GPU、改用 PyTorch（--plan pytorch）或 Athanor（--plan athanor），或只用 CPU（--device cpu）"},
         true});
    return;
  }
  Text reason, newer;
  if (there) {
    reason = {fmt::format("installed; {} runs with {} and later releases of {}", row->plugin,
                          row->rocm.text(), row->major),
              fmt::format("已安装；{} 可与 {} 及 {} 系列的后续版本一起运行", row->plugin, row->rocm.text(),
                          row->major)};
    if (row != &newest && jax_rocm_for(gpus, newest.rocm) != nullptr)
      newer = {fmt::format("ROCm {}, with which JAX {} runs", newest.rocm.text(), newest.jax),
               fmt::format("ROCm {}，可运行 JAX {}", newest.rocm.text(), newest.jax)};
  } else {
    const Text why = installed ? not_with(installed->version, gpus) : none_but_of_pip(facts);
    reason = {"to be installed: " + why.en, "需要安装：" + why.zh};
  }
  plan_rocm(plan, there ? installed->version.first(2).text() : row->rocm.text(), reason, newer);
  plan.packages = {fmt::format("jax[{}]=={}", row->extra, row->jax)};
  plan.links.push_back(
      {"JAX",
       plan.packages.front(),
       {fmt::format("the newest whose plugin is known for ROCm {} and has kernels for this chip ({})",
                    row->major, origin("jax")),
        fmt::format("插件面向 ROCm {} 且有此芯片内核的最新已知版本（{}）", row->major, origin("jax"))},
       {},
       false});
  const Version python = choose_python(facts, row->oldest_python, row->newest_python);
  plan.python = python.text();
  plan.links.push_back(python_link(
      facts, python, fmt::format("{} - {}", row->oldest_python.text(), row->newest_python.text())));
}

}  // namespace

void plan_jax(InstallPlan& plan, const Facts& facts, const Gpus& gpus) {
  const Gpus none;
  const Vendor vendor = gpus.empty() ? Vendor::other : gpus.front()->vendor;
  const Gpus &nvidia = vendor == Vendor::nvidia ? gpus : none, &amd = vendor == Vendor::amd ? gpus : none;
  if (vendor == Vendor::intel) {
    plan.links.push_back(nothing_for_intel("JAX"));
    return;
  }
  plan.check = "import jax; print(jax.__version__, jax.devices())";
  std::string extra;
  if (!nvidia.empty()) {
    const Compatibility::JaxCuda* chosen = jax_cuda_for(facts, nvidia);
    const auto needed = chosen != nullptr ? chosen->driver : Compatibility::known().jax_cuda.front().driver;
    plan.links.push_back(nvidia_driver_link(facts, nvidia, needed));
    need_nvidia(plan, facts, nvidia, needed);
    if (chosen == nullptr) {
      plan.links.back().broken = true;
      plan.links.back().reason = {
          fmt::format("JAX needs {} or newer and a GPU from sm_{} on ({})", needed.text(),
                      Compatibility::known().jax_cuda.front().oldest_sm, origin("jax")),
          fmt::format("JAX 需要 {} 以上的驱动和 sm_{} 以上的 GPU（{}）", needed.text(),
                      Compatibility::known().jax_cuda.front().oldest_sm, origin("jax"))};
      plan.links.back().newer = other_ways(facts, nvidia);
      return;
    }
    plan.links.push_back({"CUDA",
                          std::to_string(chosen->major),
                          {"comes as wheels with the plugin", "随插件的 wheel 安装"},
                          chosen->major < Compatibility::known().jax_cuda.back().major
                              ? Text{fmt::format("CUDA {} needs a driver from {} on and a GPU from sm_{} on",
                                                 Compatibility::known().jax_cuda.back().major,
                                                 Compatibility::known().jax_cuda.back().driver.text(),
                                                 Compatibility::known().jax_cuda.back().oldest_sm),
                                     fmt::format("CUDA {} 需要 {} 以上的驱动和 sm_{} 以上的 GPU",
                                                 Compatibility::known().jax_cuda.back().major,
                                                 Compatibility::known().jax_cuda.back().driver.text(),
                                                 Compatibility::known().jax_cuda.back().oldest_sm)}
                              : Text{},
                          false});
    extra = fmt::format("[cuda{}]", chosen->major);
  } else if (!amd.empty()) {
    return plan_jax_rocm(plan, facts, amd);
  }
  // The newest JAX that an installed Python can use, else the newest.
  Version oldest = Compatibility::known().jax_python.back().oldest;
  std::string below;
  const auto here = pythons_here(facts);
  for (auto row = Compatibility::known().jax_python.rbegin();
       row != Compatibility::known().jax_python.rend() && !here.empty(); ++row) {
    if (here.front() >= row->oldest) {
      oldest = row->oldest;
      break;
    }
    below = row->version.text();
  }
  plan.packages = {"jax" + extra + (below.empty() ? "" : "<" + below)};
  plan.links.push_back({"JAX",
                        plan.packages.front(),
                        {fmt::format("the newest for this Python and GPU ({})", origin("jax")),
                         fmt::format("支持此 Python 和 GPU 的最新版本（{}）", origin("jax"))},
                        below.empty() ? Text{}
                                      : Text{fmt::format("{} needs a newer Python", below),
                                             fmt::format("{} 需要更新的 Python", below)},
                        false});
  const Version python = choose_python(facts, oldest, std::nullopt);
  plan.python = python.text();
  plan.links.push_back(python_link(facts, python, oldest.text() + " +"));
}

}  // namespace athanor::doctor
