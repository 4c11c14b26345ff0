// The last link of a plan: whether there is room for it.
#include <fmt/format.h>

#include "athanor/base/text.h"
#include "athanor/doctor/plan_links.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/room.h"

namespace athanor::doctor {
namespace {

// The name in the room table for what a plan installs, from its packages and index.
std::string room_of_plan(const InstallPlan& plan) {
  const auto has = [&](std::string_view part) {
    return plan.index.find(part) != std::string::npos ||
           (!plan.packages.empty() && plan.packages.front().find(part) != std::string::npos);
  };
  if (has("cuda12")) return "cuda12";
  if (has("cuda13")) return "cuda13";
  if (has("/cu1") || has("and-cuda")) return "cuda";
  if (has("rocm")) return "rocm";
  return has("/xpu") ? "xpu" : "cpu";
}

// Whether a row of the room table ("torch 2.15.0") was measured with the release that a plan installs
// ("torch==2.15.*"). Unknown if pip chooses the release.
bool is_release_of(const InstallPlan& plan, const std::string& what) {
  if (plan.packages.empty()) return false;
  const std::string& package = plan.packages.front();
  const size_t at = package.find("==");
  if (at == std::string::npos) return false;
  std::string release = package.substr(0, at) + " " + package.substr(at + 2);
  if (release.ends_with(".*")) release.resize(release.size() - 2);
  return what.starts_with(release) &&
         (what.size() == release.size() || what[release.size()] < '0' || what[release.size()] > '9');
}

const char* word_of(RoomKind kind, Language language) {
  const bool en = language == Language::en;
  if (kind == RoomKind::disk) return en ? "free on the disk" : "磁盘可用空间";
  if (kind == RoomKind::memory) return en ? "of memory available" : "可用内存";
  return en ? "of GPU memory" : "显存";
}

}  // namespace

void plan_room(InstallPlan& plan, const Facts& facts, const std::vector<const Gpu*>& gpus) {
  if (plan.goal == "athanor" || plan.broken() != nullptr) return;
  const Compatibility& known = Compatibility::known();
  const RoomHere here = room_here(facts, gpus);
  const Compatibility::Room* need = known.room_for(plan.goal, room_of_plan(plan));
  Link link{"room", here.disk ? format_bytes(*here.disk) + " free" : "-", {}, {}, false};
  if (need == nullptr) {
    link.reason = {fmt::format("how much room it takes is not known ({})", origin("room")),
                   fmt::format("所需空间未知（{}）", origin("room"))};
    plan.links.push_back(link);
    return;
  }
  const Text takes = room_text(*need);
  const bool same = is_release_of(plan, need->what);
  const Text what{same ? need->what + " takes" : fmt::format("about as much as {} takes:", need->what),
                  same ? need->what + " 需要" : fmt::format("与 {} 大致相同，即", need->what)};
  const std::string& date = known.origins.at("room").date;
  link.reason = {fmt::format("{}: {} {} ({}, {})", here.folder, what.en, takes.en, need->source, date),
                 fmt::format("{}：{} {}（{}，{}）", here.folder, what.zh, takes.zh, need->source, date)};
  for (const Shortage& one : shortages(*need, here)) {
    link.broken = true;
    link.reason.en = fmt::format("not enough: {} {}, and {} needed. {}", format_bytes(one.there),
                                 word_of(one.kind, Language::en), format_bytes(one.needed), link.reason.en);
    link.reason.zh = fmt::format("不足：{} {}，需要 {}。{}", word_of(one.kind, Language::zh),
                                 format_bytes(one.there), format_bytes(one.needed), link.reason.zh);
    link.newer =
        one.kind == RoomKind::disk
            ? Text{"more room: another disk for the environment, or an emptied one (pip cache purge)",
                   "更多空间：把环境放在其他磁盘，或清理磁盘（pip cache purge）"}
            : Text{"other programs closed, or a machine with more", "关闭其他程序，或使用配置更高的机器"};
  }
  // pip keeps its downloads in its cache, which is under the home too.
  if (!link.broken && need->installed && need->download && here.disk &&
      *here.disk < *need->installed + *need->download) {
    link.reason.en += "; too little to keep the download too: give pip --no-cache-dir";
    link.reason.zh += "；不足以同时保留下载缓存：请使用 pip --no-cache-dir";
  }
  plan.links.push_back(link);
  if (plan.driver_test.find("/opt/rocm") == std::string::npos || newest_rocm(facts)) return;
  // ROCm itself must be installed first.
  if (const auto* rocm = known.room_for("rocm", "rocm")) {
    const RoomHere opt = room_here(facts, gpus, true);
    Link there{"room for ROCm", opt.disk ? format_bytes(*opt.disk) + " free" : "-", {}, {}, false};
    there.reason = {
        fmt::format("{}: {} take {} ({})", opt.folder, rocm->what, room_text(*rocm).en, rocm->source),
        fmt::format("{}：{} 需要 {}（{}）", opt.folder, rocm->what, room_text(*rocm).zh, rocm->source)};
    there.broken = !shortages(*rocm, opt).empty();
    if (there.broken)
      there.newer = {"more room under /opt, or ROCm without what is not needed",
                     "扩大 /opt 的空间，或只安装所需的 ROCm 组件"};
    plan.links.push_back(there);
  }
}

}  // namespace athanor::doctor
