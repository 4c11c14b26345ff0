#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
void plan_jax(InstallPlan& plan, const Facts& facts) {
  const auto nvidia = computing_gpus(facts, Vendor::nvidia), amd = computing_gpus(facts, Vendor::amd);
  plan.links.push_back(gpu_link(nvidia.empty() ? amd : nvidia));
  plan.check = "import jax; print(jax.__version__, jax.devices())";
  std::string extra, pinned;
  if (!nvidia.empty()) {
    const auto driver = Version::parse(facts.nvidia().module_version);
    const Compatibility::JaxCuda* chosen = nullptr;
    for (const Compatibility::JaxCuda& row : Compatibility::known().jax_cuda) {
      const bool chips = std::all_of(nvidia.begin(), nvidia.end(), [&](const Gpu* gpu) {
        return gpu->arch.empty() || sm_number(gpu->arch) >= row.oldest_sm;
      });
      if (chips && (!driver || *driver >= row.driver)) chosen = &row;
    }
    const auto needed = chosen != nullptr ? chosen->driver : Compatibility::known().jax_cuda.front().driver;
    plan.links.push_back(nvidia_driver_link(facts, needed));
    need_nvidia(plan, facts, needed);
    if (chosen == nullptr) {
      plan.links.back().broken = true;
      plan.links.back().reason = {
          fmt::format("JAX needs {} or newer and a GPU from sm_{} on ({})", needed.text(),
                      Compatibility::known().jax_cuda.front().oldest_sm, origin("jax")),
          fmt::format("JAX 需要 {} 以上的驱动和 sm_{} 以上的 GPU（{}）", needed.text(),
                      Compatibility::known().jax_cuda.front().oldest_sm, origin("jax"))};
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
    const Compatibility::Rocm* row = plan_rocm(plan, facts, amd, &Compatibility::Rocm::jax, "JAX");
    if (row == nullptr) return;
    if (row->version.at(0) < 7) {
      plan.links.back().broken = true;
      plan.links.back().reason = {"JAX's wheels for AMD (jax[rocm7-local]) need ROCm 7",
                                  "JAX 的 AMD wheel（jax[rocm7-local]）需要 ROCm 7"};
      return;
    }
    extra = "[rocm7-local]";
    pinned = row->jax;
  }
  // The newest JAX that a Python here may have, else the newest.
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
  if (!pinned.empty()) below.clear();
  plan.packages = {"jax" + extra + (pinned.empty() ? below.empty() ? "" : "<" + below : "==" + pinned)};
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
