#include "athanor/device/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/device/provider_names.h"

namespace athanor {
namespace {

// Never destroyed, because tensors may outlive everything else. Threads read it without a lock.
std::array<std::atomic<DeviceProvider*>, max_providers>& providers() {
  static auto& all = *new std::array<std::atomic<DeviceProvider*>, max_providers>{};
  return all;
}

// The host's provider first, then the others by name, whatever the order of registration.
std::vector<DeviceProvider*> in_order() {
  std::vector<DeviceProvider*> list;
  for (const auto& provider : providers())
    if (DeviceProvider* there = provider) list.push_back(there);
  const auto place = [](DeviceProvider* p) { return std::pair(p != providers()[host_provider], p->name()); };
  std::ranges::stable_sort(list, {}, place);
  return list;
}

}  // namespace

uint8_t register_provider(std::unique_ptr<DeviceProvider> provider, int id) {
  static std::atomic<uint8_t> next_free{host_provider + 1};
  const uint8_t place = id >= 0 ? static_cast<uint8_t>(id) : next_free++;
  if (place >= max_providers) throw Error(ErrorCode::internal, "too many kinds of devices");
  providers()[place] = provider.release();
  return place;
}

DeviceProvider& provider_of(Device device) {
  DeviceProvider* provider = providers().at(device.provider);
  if (provider == nullptr) throw Error(ErrorCode::internal, "a device of no provider");
  return *provider;
}

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const auto* provider : in_order()) names.push_back(provider->name());
  return names;
}

std::vector<std::string> first_device_names() {
  std::vector<std::string> names;
  for (auto* provider : in_order())
    if (!provider->hidden())
      names.push_back(provider->name() + (provider == providers()[host_provider] ? "" : ":0"));
  return names;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all;
  for (auto* provider : in_order())
    for (auto& info : provider->devices()) all.push_back(std::move(info));
  return all;
}

DeviceInfo info_of(Device device) {
  const auto hidden = provider_of(device).hidden();
  return hidden ? *hidden : provider_of(device).devices().at(device.index);
}

std::string to_string(Device device) {
  const std::string name = provider_of(device).name();
  return device.provider == host_provider ? name : name + ":" + std::to_string(device.index);
}

namespace {

// "0" to "99"; "4090" is part of a name.
bool is_number_of_device(const std::string& text) {
  return text.size() <= 2 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

Device parse_device(const std::string& name) {
  std::vector<std::string> names;
  const std::string wanted = name.substr(0, name.find(':'));
  // Ask the named provider first: others may take long to look for their devices.
  for (const bool all : {false, true})
    for (auto* provider : in_order()) {
      if (!all && provider->name() != wanted) continue;
      if (const auto hidden = provider->hidden(); hidden && provider->name() == name) return hidden->device;
      for (const auto& info : provider->devices()) {
        const std::string full = to_string(info.device);
        const std::string rest = name.size() > wanted.size() ? name.substr(wanted.size() + 1) : "";
        // "opencl" means its first device, "opencl:Radeon" the first one with that in its name. "opencl:1"
        // means number 1, not a device with a 1 in its name.
        const bool by_name = !rest.empty() && !is_number_of_device(rest) && provider->name() == wanted &&
                             contains_ignoring_case(info.name, rest);
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

}  // namespace athanor
