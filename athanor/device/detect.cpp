#include "athanor/device/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"
#include "athanor/device/visibility.h"

namespace athanor {

const Value* FoundDevice::find(const std::string& property) const {
  const auto found = properties.find(property);
  return found == properties.end() ? nullptr : &found->second.in_use.value;
}

int64_t FoundDevice::number(const std::string& property, int64_t otherwise) const {
  const Value* value = find(property);
  const auto* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return number == nullptr ? otherwise : *number;
}

std::string FoundDevice::text(const std::string& property) const {
  const Value* value = find(property);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string() : *text;
}

Detection detect(const Machine& machine, const DetectOptions& options) {
  Detection found;
  std::vector<Sighting> sightings;
  const auto take = [&](std::vector<Sighting> more) {
    sightings.insert(sightings.end(), std::make_move_iterator(more.begin()),
                     std::make_move_iterator(more.end()));
  };
  take(sightings_of_pci(machine));
  take(sightings_of_kfd(machine));
  take(sightings_of_nvidia(machine));
  take(sightings_of_cpu(machine));
  take(sightings_of_wsl(machine));
  take(sightings_of_runtimes(machine, options, found.runtimes));
  found.devices = merge(sightings, machine);
  for (FoundDevice& device : found.devices)
    device.from_windows =
        device.kind != "cpu" && device.find("pci_id") == nullptr && machine.exists("/dev/dxg");
  add_backends(found.devices, found.runtimes, machine);
  add_kernel_libraries(found.devices, found.runtimes, machine);
  add_overrides(found.devices, machine);
  found.dangers = find_dangers(found.devices, machine);
  for (const Visibility& one : visibilities(found.devices, machine))
    for (RuntimeState& state : found.runtimes)
      if (std::ranges::count(one.backends, state.name) > 0) state.settings.push_back(one.setting);
  return found;
}

nlohmann::ordered_json to_json(const Value& value) {
  return std::visit([](const auto& v) { return nlohmann::ordered_json(v); }, value);
}

nlohmann::ordered_json to_json(const Detection& detection) {
  using Json = nlohmann::ordered_json;
  const auto reading = [](const Reading& one) {
    Json json{{"source", one.source}, {"value", to_json(one.value)}};
    if (!one.meaning.empty()) json["meaning"] = one.meaning;
    return json;
  };
  Json devices = Json::array();
  for (const FoundDevice& device : detection.devices) {
    Json backends = Json::array();
    for (const BackendUse& use : device.backends) {
      Json one{{"name", use.backend}, {"usable", use.usable}};
      if (!use.device.empty()) one["device"] = use.device;
      if (!use.reason.empty()) one["reason"] = use.reason;
      if (use.no_compiler) one["no_compiler"] = true;
      if (!use.hidden_by.empty()) one["hidden_by"] = use.hidden_by;
      backends.push_back(std::move(one));
    }
    Json properties = Json::object();
    for (const auto& [name, fact] : device.properties) {
      Json one{{"value", to_json(fact.in_use.value)}, {"source", fact.in_use.source}};
      if (!fact.in_use.meaning.empty()) one["meaning"] = fact.in_use.meaning;
      if (!fact.others.empty()) {
        one["others"] = Json::array();
        for (const Reading& other : fact.others) one["others"].push_back(reading(other));
      }
      if (!fact.note.empty()) one["note"] = fact.note;
      properties[name] = std::move(one);
    }
    devices.push_back({{"name", device.name},
                       {"kind", device.kind},
                       {"backends", std::move(backends)},
                       {"properties", std::move(properties)}});
  }
  Json dangers = Json::array(), runtimes = Json::array();
  for (const Danger& danger : detection.dangers)
    dangers.push_back({{"setting", danger.setting}, {"what", danger.what}, {"fix", danger.fix}});
  for (const RuntimeState& state : detection.runtimes) {
    Json one{{"name", state.name}, {"answered", state.answered}};
    if (!state.version.empty()) one["version"] = state.version;
    if (!state.problem.empty()) one["problem"] = state.problem;
    if (!state.settings.empty()) one["settings"] = state.settings;
    runtimes.push_back(std::move(one));
  }
  return {{"schema", 1},
          {"devices", std::move(devices)},
          {"dangers", std::move(dangers)},
          {"runtimes", std::move(runtimes)}};
}

std::string to_text(const std::string& property, const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&value)) {
    if (property.ends_with("_bytes") && *number >= 0) return format_bytes(static_cast<uint64_t>(*number));
    if (property.ends_with("_mhz")) return fmt::format("{} MHz", *number);
    return std::to_string(*number);
  }
  const double number = std::get<double>(value);
  std::string digits = fmt::format("{:.{}f}", number, number < 10 ? 2 : number < 100 ? 1 : 0);
  if (property.ends_with("_gb_s")) return digits + " GB/s";
  if (property.ends_with("_tflops")) return digits + " Tflop/s";
  if (property.ends_with("_watts")) return digits + " W";
  return digits;
}

}  // namespace athanor
