// Room for packages that are not installed yet.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/text.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/room.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

// Less is too little for anything: system.disk reports that.
constexpr uint64_t full_disk = uint64_t{1} << 30;

bool has_package(const Facts& f, std::string_view name) {
  return std::any_of(f.pythons().begin(), f.pythons().end(),
                     [&](const PythonEnvironment& one) { return one.find(name) != nullptr; });
}

bool has_any_rocm(const Facts& f) {
  return newest_rocm(f) || std::any_of(f.pythons().begin(), f.pythons().end(),
                                       [](const PythonEnvironment& one) { return pip_rocm(one) != nullptr; });
}

const AddProbe room_probe("system.room", [](const Facts& f) {
  // The GPUs of the first vendor that has any: people want frameworks for them.
  std::vector<const Gpu*> gpus;
  for (const Vendor vendor : {Vendor::nvidia, Vendor::amd, Vendor::intel})
    if (gpus.empty()) gpus = computing_gpus(f, vendor);
  Finding finding = warn();
  std::vector<std::string> goals;
  bool known = false;
  const auto look = [&](const char* name, const Compatibility::Room* need, const RoomHere& here) {
    if (need == nullptr || (here.disk && *here.disk < full_disk)) return;
    known = known || here.disk || here.memory;
    for (const Shortage& one : shortages(*need, here)) {
      const std::string where = one.kind == RoomKind::disk     ? here.folder
                                : one.kind == RoomKind::memory ? "/proc/meminfo"
                                                               : gpus.front()->title();
      finding.seen(where, fmt::format("{} free; {}: {} ({})", format_bytes(one.there), need->what,
                                      format_bytes(one.needed), need->source));
      if (one.kind == RoomKind::vram) finding.with("gpu_memory", "yes");
      if (one.kind == RoomKind::disk) finding.with("folder", here.folder == "/opt" ? "/" : here.folder);
      if (goals.empty() || goals.back() != name) goals.emplace_back(name);
    }
  };
  const RoomHere home = room_here(f, gpus);
  for (const auto& [name, goal, package] :
       {std::array{"PyTorch", "pytorch", "torch"}, std::array{"TensorFlow", "tensorflow", "tensorflow"},
        std::array{"JAX", "jax", "jax"}})
    if (!has_package(f, package)) look(name, room_needed(f, goal, gpus), home);
  if (!gpus.empty() && gpus.front()->vendor == Vendor::amd && !has_any_rocm(f))
    look("ROCm", Compatibility::known().room_for("rocm", "rocm"), room_here(f, gpus, true));
  if (!goals.empty())
    return finding.with("goals", join(goals))
        .with("date", Compatibility::known().origins.at("room").date)
        .with("disk", finding.values.contains("folder") ? "yes" : "no");
  return known ? pass() : skip();
});

}  // namespace
}  // namespace athanor::doctor
