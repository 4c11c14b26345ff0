#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

// The newest ROCm row that has TensorFlow and supports these chips.
const Compatibility::Rocm* rocm_for(const std::vector<const Gpu*>& gpus, const std::optional<Version>& here) {
  const Compatibility::Rocm* found = nullptr;
  for (const Compatibility::Rocm& row : Compatibility::known().rocm) {
    if (row.tensorflow.empty() || (here && row.version != here->first(2))) continue;
    if (std::all_of(gpus.begin(), gpus.end(),
                    [&](const Gpu* gpu) { return row.targets.contains(gpu->arch); }))
      found = &row;
  }
  return found;
}

// Adds ROCm's link; nullptr if it is broken.
const Compatibility::Rocm* plan_tensorflow_rocm(InstallPlan& plan, const Facts& facts,
                                                const std::vector<const Gpu*>& amd) {
  const auto installed = newest_rocm(facts);
  const Compatibility::Rocm* row =
      rocm_for(amd, installed ? std::optional(installed->version) : std::nullopt);
  if (row == nullptr) row = rocm_for(amd, std::nullopt);
  if (row == nullptr) {
    plan.links.push_back(
        {"ROCm",
         "-",
         {fmt::format("no release has TensorFlow for {} ({})", amd.front()->title(), origin("rocm")),
          fmt::format("没有为 {} 提供 TensorFlow 的版本（{}）", amd.front()->title(), origin("rocm"))},
         {"another GPU, PyTorch (--plan pytorch), Athanor (--plan athanor), or the CPU (--device cpu)",
          "更换 GPU、改用 PyTorch（--plan pytorch）或 Athanor（--plan athanor），或只用 CPU（--device cpu）"},
         true});
    return nullptr;
  }
  const bool there = installed && installed->version.first(2) == row->version;
  plan_rocm(plan, row->version.text(),
            there ? Text{"installed", "已安装"}
                  : Text{fmt::format("to be installed: the newest that has TensorFlow for this chip ({})",
                                     origin("rocm")),
                         fmt::format("需要安装：为此芯片提供 TensorFlow 的最新版本（{}）", origin("rocm"))},
            {});
  return row;
}

}  // namespace

void plan_tensorflow(InstallPlan& plan, const Facts& facts, const Gpus& gpus) {
  const Gpus none;
  const Vendor vendor = gpus.empty() ? Vendor::other : gpus.front()->vendor;
  const Gpus &nvidia = vendor == Vendor::nvidia ? gpus : none, &amd = vendor == Vendor::amd ? gpus : none;
  if (vendor == Vendor::intel) {
    plan.links.push_back(nothing_for_intel("TensorFlow"));
    return;
  }
  plan.check = "import tensorflow as tf; print(tf.__version__, tf.config.list_physical_devices())";
  const auto driver = usable_driver(facts, nvidia);
  const Compatibility::Framework* release = nullptr;
  if (nvidia.empty() && !amd.empty()) {
    plan.links.push_back(amd_driver_link(facts));
    need_amd(plan);
    const Compatibility::Rocm* row = plan_tensorflow_rocm(plan, facts, amd);
    if (row == nullptr) return;
    release = Compatibility::find(Compatibility::known().tensorflow, *Version::parse(row->tensorflow));
    plan.packages = {fmt::format("tensorflow-rocm=={}.*", Version::parse(row->tensorflow)->first(2).text())};
    plan.find_links = fmt::format("https://repo.radeon.com/rocm/manylinux/rocm-rel-{}/", row->version.text());
  } else {
    for (auto one = Compatibility::known().tensorflow.rbegin();
         one != Compatibility::known().tensorflow.rend() && release == nullptr; ++one) {
      const auto needed = Compatibility::known().oldest_driver(one->cuda.front());
      const auto* toolkit = Compatibility::known().toolkit(one->cuda.front());
      const bool compiled = std::ranges::all_of(nvidia, [&](const Gpu* gpu) {
        return toolkit == nullptr || may_run(facts, *gpu, toolkit->sm.oldest());
      });
      if (compiled && (nvidia.empty() || !driver || !needed || *driver >= *needed)) release = &*one;
    }
    const Compatibility::Framework& shown_release =
        release == nullptr ? Compatibility::known().tensorflow.front() : *release;
    const auto needed = Compatibility::known().oldest_driver(shown_release.cuda.front());
    if (!nvidia.empty()) {
      plan.links.push_back(nvidia_driver_link(facts, nvidia, needed));
      need_nvidia(plan, facts, nvidia, needed);
      if (release == nullptr) {
        plan.links.back().broken = true;
        const auto* oldest = Compatibility::known().toolkit(shown_release.cuda.front());
        if (needed && oldest != nullptr)
          plan.links.back().reason = {fmt::format("TensorFlow needs {} or newer and a GPU from sm_{} on ({})",
                                                  needed->text(), oldest->sm.oldest(), origin("tensorflow")),
                                      fmt::format("TensorFlow 需要 {} 以上的驱动和 sm_{} 以上的 GPU（{}）",
                                                  needed->text(), oldest->sm.oldest(), origin("tensorflow"))};
        plan.links.back().newer = other_ways(facts, nvidia);
        return;
      }
      plan.links.push_back(
          {"CUDA, cuDNN",
           release->cuda.front().text() + ", " + release->cudnn,
           {"come as wheels with tensorflow[and-cuda]", "随 tensorflow[and-cuda] 的 wheel 安装"},
           {},
           false});
      if (const auto* toolkit = Compatibility::known().toolkit(release->cuda.front());
          toolkit != nullptr && !may_run(facts, *nvidia.front(), toolkit->sm))
        plan.links.push_back(
            {"kernels",
             nvidia.front()->arch,
             {"newer than this CUDA can compile for: whether TensorFlow runs here is unknown",
              "比此 CUDA 支持的芯片更新：TensorFlow 能否运行未知"},
             {"a TensorFlow built with CUDA 12.8 or newer", "用 CUDA 12.8 以上编译的 TensorFlow"},
             false});
    }
    plan.packages = {
        fmt::format("tensorflow{}=={}.*", nvidia.empty() ? "" : "[and-cuda]", release->version.text())};
  }
  const Version oldest = release == nullptr ? *Version::parse("3.10") : release->oldest_python;
  const Version newest = release == nullptr ? *Version::parse("3.12") : release->newest_python;
  plan.links.push_back({"TensorFlow",
                        plan.packages.front(),
                        {fmt::format("the newest that fits ({})", origin("tensorflow")),
                         fmt::format("符合要求的最新版本（{}）", origin("tensorflow"))},
                        {},
                        false});
  const Version python = choose_python(facts, oldest, newest);
  plan.python = python.text();
  plan.links.push_back(python_link(facts, python, oldest.text() + " - " + newest.text()));
}

}  // namespace athanor::doctor
