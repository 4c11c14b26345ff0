#include "athanor/device/device.h"

#include <array>
#include <atomic>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/device/provider_names.h"

namespace athanor {
namespace {

constexpr size_t max_providers = 8, max_devices = 64;

std::vector<std::unique_ptr<DeviceProvider>>& providers() {
  static std::vector<std::unique_ptr<DeviceProvider>> list;
  return list;
}

struct Count {
  std::atomic<int64_t> current{0}, peak{0};
};

Count& count_of(Device device) {
  static std::array<std::array<Count, max_devices>, max_providers> counts;
  return counts.at(device.provider).at(device.index);
}

}  // namespace

uint8_t register_provider(std::unique_ptr<DeviceProvider> provider, int id) {
  auto& list = providers();
  if (list.empty()) list.resize(host_provider + 1);
  const size_t place = id >= 0 ? static_cast<size_t>(id) : list.size();
  if (place >= list.size()) list.resize(place + 1);
  list[place] = std::move(provider);
  return static_cast<uint8_t>(place);
}

DeviceProvider& provider_of(Device device) { return *providers().at(device.provider); }

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const auto& provider : providers())
    if (provider) names.push_back(provider->name());
  return names;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all;
  for (const auto& provider : providers())
    if (provider)
      for (auto& info : provider->devices()) all.push_back(std::move(info));
  return all;
}

DeviceInfo info_of(Device device) {
  const auto hidden = provider_of(device).hidden();
  return hidden ? *hidden : provider_of(device).devices().at(device.index);
}

std::string to_string(Device device) {
  const std::string name = provider_of(device).name();
  return name == "cpu" ? name : name + ":" + std::to_string(device.index);
}

Device parse_device(const std::string& name) {
  std::vector<std::string> names;
  const std::string wanted = name.substr(0, name.find(':'));
  // Ask the named provider first: others may take long to look for their devices.
  for (const bool all : {false, true})
    for (const auto& provider : providers()) {
      if (!provider || (!all && provider->name() != wanted)) continue;
      if (const auto hidden = provider->hidden(); hidden && provider->name() == name) return hidden->device;
      for (const auto& info : provider->devices()) {
        const std::string full = to_string(info.device);
        const std::string rest = name.size() > wanted.size() ? name.substr(wanted.size() + 1) : "";
        // "opencl" means its first device, "opencl:Radeon" the first one with that in its name.
        const bool by_name =
            !rest.empty() && provider->name() == wanted && contains_ignoring_case(info.name, rest);
        if (name == full || (name == provider->name() && info.device.index == 0) || by_name)
          return info.device;
        if (name == "gpu" && info.kind == "gpu") return info.device;
        if (all) names.push_back(full);
      }
    }
  names.emplace_back("auto");
  const std::string near = name == "gpu" ? "" : nearest(name, {names.begin(), names.end()});
  throw Error(ErrorCode::device,
              name == "gpu" ? "no device here is a GPU" : "there is no device '" + name + "'", {},
              (near.empty() ? "" : "Did you mean '" + near + "'? ") + "Devices here: " + join(names));
}

std::shared_ptr<Storage> allocate(Device device, size_t bytes) {
  return provider_of(device).allocate(device.index, bytes);
}

MemoryUse memory_use(Device device) {
  const Count& count = count_of(device);
  return {static_cast<uint64_t>(count.current.load()), static_cast<uint64_t>(count.peak.load())};
}

void reset_peak_memory(Device device) {
  Count& count = count_of(device);
  count.peak = count.current.load();
}

void count_memory(Device device, int64_t bytes) {
  Count& count = count_of(device);
  const int64_t now = count.current += bytes;
  int64_t peak = count.peak.load();
  while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
  }
}

}  // namespace athanor
