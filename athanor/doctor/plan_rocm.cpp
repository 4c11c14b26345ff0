#include "athanor/doctor/plan_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

// The newest ROCm row that has a framework, and serves these chips.
const Compatibility::Rocm* rocm_for(const std::vector<const Gpu*>& gpus,
                                    std::string Compatibility::Rocm::*framework,
                                    const std::optional<Version>& here) {
  const Compatibility::Rocm* found = nullptr;
  for (const Compatibility::Rocm& row : Compatibility::known().rocm) {
    if ((row.*framework).empty() || (here && row.version != here->first(2))) continue;
    const bool chips = std::all_of(gpus.begin(), gpus.end(),
                                   [&](const Gpu* gpu) { return row.targets.contains(gpu->arch); });
    if (chips) found = &row;
  }
  return found;
}

}  // namespace

const Compatibility::Rocm* plan_rocm(InstallPlan& plan, const Facts& facts,
                                     const std::vector<const Gpu*>& amd,
                                     std::string Compatibility::Rocm::*framework, const char* name) {
  plan.links.push_back(amd_driver_link(facts));
  need_amd(plan);
  const auto installed = newest_rocm(facts);
  const auto here = installed ? std::optional(installed->version) : std::nullopt;
  const Compatibility::Rocm* row = rocm_for(amd, framework, here);
  if (row == nullptr && here) row = rocm_for(amd, framework, std::nullopt);
  if (row == nullptr) {
    plan.links.push_back(
        {"ROCm",
         "-",
         {fmt::format("no release has {} for {} ({})", name, amd.front()->title(), origin("rocm")),
          fmt::format("没有为 {} 提供 {} 的版本（{}）", amd.front()->title(), name, origin("rocm"))},
         {"another GPU, or PyTorch (--plan pytorch) or Athanor (--plan athanor)",
          "更换 GPU，或改用 PyTorch（--plan pytorch）或 Athanor（--plan athanor）"},
         true});
    return nullptr;
  }
  const bool there = here && here->first(2) == row->version;
  plan.links.push_back(
      {"ROCm",
       row->version.text(),
       there ? Text{"installed", "已安装"}
             : Text{fmt::format("to be installed: the newest that has {} for this chip ({})", name,
                                origin("rocm")),
                    fmt::format("需要安装：为此芯片提供 {} 的最新版本（{}）", name, origin("rocm"))},
       {},
       false});
  plan.driver_test += fmt::format(" && grep -q '^{}' /opt/rocm/.info/version", row->version.text());
  plan.driver_hint = fmt::format(
      "ROCm {} must be installed under /opt/rocm, and /dev/kfd open to you: rocm.docs.amd.com, then athanor "
      "doctor",
      row->version.text());
  plan.image = fmt::format("rocm/dev-ubuntu-24.04:{}", row->version.text());
  return row;
}

}  // namespace athanor::doctor
