#include "athanor/cli/cache_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/device/device.h"
#include "athanor/device/sighting.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/tuner.h"

namespace athanor::cli {
namespace {

using Fate = KernelCache::Fate;

/// What a file holds for the devices of one name.
struct ForDevice {
  std::string name;
  std::vector<std::string> here = {};  // the devices of this machine with this name: "cuda:0"
  int64_t winners = 0, marked = 0, binaries = 0;
  int64_t ready = 0;  // of the winners: timed with a driver (and threads) of this machine
};

std::string device_of(const KernelCache::Imported& one) {
  if (one.kind == "binary") return one.key;
  constexpr std::string_view background = "background|";
  const std::string_view key = one.key;
  const std::string_view rest = key.starts_with(background) ? key.substr(background.size()) : key;
  return rest.find('|') == std::string_view::npos ? "" : std::string(rest.substr(0, rest.find('|')));
}

std::vector<ForDevice> by_device(const std::vector<KernelCache::Imported>& all) {
  const std::vector<DeviceInfo> listed = list_devices();
  std::vector<ForDevice> devices;
  for (const auto& one : all) {
    const std::string name = device_of(one);
    if (one.fate == Fate::damaged || name.empty()) continue;
    auto found = std::ranges::find(devices, name, &ForDevice::name);
    if (found == devices.end()) {
      found = devices.insert(found, {.name = name});
      for (const DeviceInfo& info : listed)
        if (info.name == name) found->here.push_back(to_string(info.device));
    }
    (one.kind == "winner" ? found->winners : one.kind == "marked" ? found->marked : found->binaries) += 1;
    if (one.kind == "winner")
      found->ready += std::ranges::any_of(
          listed, [&](const DeviceInfo& info) { return one.key.starts_with(environment_key(info) + "|"); });
  }
  std::ranges::stable_sort(devices, {}, [](const ForDevice& device) { return device.here.empty(); });
  return devices;
}

std::string counted(int64_t count, const std::string& one, const std::string& several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

/// "3 tuning results, 1 compiled kernel"; kinds of which there is none are left out, but not all.
std::string contents(int64_t winners, int64_t marked, int64_t binaries) {
  std::vector<std::string> parts;
  if (winners > 0 || marked + binaries == 0)
    parts.push_back(counted(winners, "tuning result", "tuning results"));
  if (marked > 0) parts.push_back(counted(marked, "mark of an unusable kernel", "marks of unusable kernels"));
  if (binaries > 0) parts.push_back(counted(binaries, "compiled kernel", "compiled kernels"));
  return join(parts);
}

std::string line_of(const ForDevice& device) {
  std::string text = fmt::format("  {}: {}", printable(device.name),
                                 contents(device.winners, device.marked, device.binaries));
  if (device.here.empty()) return text + "; no device of this machine\n";
  text += fmt::format("; here {}", join(device.here));
  if (const int64_t others = device.winners - device.ready; others > 0)
    text += fmt::format(", {} as first guesses (timed with another driver or number of threads)",
                        others == device.winners ? "all" : std::to_string(others));
  return text + "\n";
}

}  // namespace

int import_cache(const std::string& file, bool json) {
  KernelCache& cache = KernelCache::instance();
  const auto all = cache.import_from(file);
  const auto count = [&](auto&& wanted) { return std::ranges::count_if(all, wanted); };
  const auto of_kind = [&](const char* kind) {
    return count([&](const auto& one) { return one.kind == kind && one.fate != Fate::damaged; });
  };
  const auto with = [&](Fate fate) { return count([&](const auto& one) { return one.fate == fate; }); };
  const auto devices = by_device(all);
  int64_t usable = 0;
  for (const ForDevice& device : devices)
    if (!device.here.empty()) usable += device.winners;

  if (json) {
    auto listed = nlohmann::ordered_json::array();
    for (const ForDevice& device : devices)
      listed.push_back({{"name", device.name},
                        {"here", device.here},
                        {"tuning_results", device.winners},
                        {"ready", device.ready},
                        {"marked", device.marked},
                        {"compiled_kernels", device.binaries}});
    std::cout << nlohmann::ordered_json{{"file", file},
                                        {"into", cache.file().string()},
                                        {"tuning_results", of_kind("winner")},
                                        {"usable_here", usable},
                                        {"marked", of_kind("marked")},
                                        {"compiled_kernels", of_kind("binary")},
                                        {"devices", listed},
                                        {"new", with(Fate::added)},
                                        {"replaced", with(Fate::replaced)},
                                        {"present", with(Fate::present)},
                                        {"damaged", with(Fate::damaged)},
                                        {"running", with(Fate::running)}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
    return 0;
  }
  std::cout << fmt::format("{}: {}\n", file,
                           contents(of_kind("winner"), of_kind("marked"), of_kind("binary")));
  for (const ForDevice& device : devices) std::cout << line_of(device);
  if (of_kind("winner") > 0)
    std::cout << fmt::format("Usable here: {} of {} tuning results (athanor detect lists the devices)\n",
                             usable, of_kind("winner"));
  std::cout << fmt::format("{}: {} new, {} replaced, {} there already\n", cache.file().string(),
                           with(Fate::added), with(Fate::replaced), with(Fate::present));
  std::vector<std::string> skipped;
  if (const auto damaged = with(Fate::damaged); damaged > 0)
    skipped.push_back(fmt::format("{} damaged", damaged));
  if (const auto running = with(Fate::running); running > 0)
    skipped.push_back(counted(running, "mark of a program that runs", "marks of programs that run"));
  if (!skipped.empty()) std::cout << fmt::format("Left out: {}\n", join(skipped));
  return 0;
}

}  // namespace athanor::cli
