#include "athanor/doctor/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/pci.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

std::optional<uint64_t> available_memory(const Facts& facts) {
  for (const std::string& line : split(facts.machine().read("/proc/meminfo").value_or(""), '\n'))
    if (line.starts_with("MemAvailable:")) {
      const std::string number = trim(std::string_view(line).substr(13));
      uint64_t kib = 0;
      std::from_chars(number.data(), number.data() + number.size(), kib);
      if (kib > 0) return kib * 1024;
    }
  return std::nullopt;
}

// As drivers report it, otherwise by the data sheet.
std::optional<uint64_t> vram_of(const Gpu& gpu) {
  if (gpu.integrated) return std::nullopt;  // it takes main memory
  if (gpu.memory_bytes > 0) return gpu.memory_bytes;
  DeviceTraits traits;
  traits.pci_vendor = gpu.vendor == Vendor::amd      ? pci_vendor::amd
                      : gpu.vendor == Vendor::nvidia ? pci_vendor::nvidia
                                                     : pci_vendor::intel;
  traits.pci_device = gpu.id;
  traits.name = gpu.name;
  const DataSheet* sheet = find_data_sheet(traits);
  if (sheet == nullptr || !sheet->memory_gb || *sheet->memory_gb <= 0) return std::nullopt;
  return static_cast<uint64_t>(*sheet->memory_gb * 1e9);
}

}  // namespace

RoomHere room_here(const Facts& facts, const std::vector<const Gpu*>& gpus, bool rocm) {
  RoomHere here;
  const std::string home = facts.machine().user().home;
  here.folder = rocm ? "/opt" : home.empty() ? "/" : home;
  if (const auto space = facts.machine().disk(here.folder); space && space->total_bytes > 0)
    here.disk = space->free_bytes;
  here.memory = available_memory(facts);
  for (const Gpu* gpu : gpus)
    if (const auto bytes = vram_of(*gpu)) here.vram = std::max(here.vram.value_or(0), *bytes);
  return here;
}

std::vector<Shortage> shortages(const Compatibility::Room& need, const RoomHere& here) {
  std::vector<Shortage> all;
  const auto judge = [&](RoomKind kind, const std::optional<uint64_t>& needed,
                         const std::optional<uint64_t>& there) {
    if (needed && there && *there < *needed) all.push_back({kind, *needed, *there});
  };
  judge(RoomKind::disk, need.installed ? need.installed : need.download, here.disk);
  judge(RoomKind::memory, need.memory, here.memory);
  judge(RoomKind::vram, need.vram, here.vram);
  return all;
}

Text room_text(const Compatibility::Room& need) {
  std::vector<std::string> en, zh;
  const auto add = [&](const std::optional<uint64_t>& bytes, const char* in_en, const char* in_zh) {
    if (!bytes) return;
    en.push_back(fmt::format("{} {}", format_bytes(*bytes), in_en));
    zh.push_back(fmt::format("{} {}", in_zh, format_bytes(*bytes)));
  };
  add(need.installed, "on the disk", "磁盘");
  add(need.download, "to download", "下载");
  add(need.memory, "of memory", "内存");
  add(need.vram, "of the GPU's", "显存");
  return {join(en), join(zh, "，")};
}

const Compatibility::Room* room_needed(const Facts& facts, const std::string& goal,
                                       const std::vector<const Gpu*>& gpus) {
  const Compatibility& known = Compatibility::known();
  if (gpus.empty()) return known.room_for(goal, "cpu");
  if (gpus.front()->vendor == Vendor::intel) return known.room_for(goal, goal == "pytorch" ? "xpu" : "cpu");
  if (gpus.front()->vendor == Vendor::amd) return known.room_for(goal, "rocm");
  if (goal != "jax") return known.room_for(goal, "cuda");
  const auto* cuda = jax_cuda_for(facts, gpus);
  return cuda == nullptr ? nullptr : known.room_for(goal, fmt::format("cuda{}", cuda->major));
}

}  // namespace athanor::doctor
