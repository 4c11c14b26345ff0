#include "athanor/device/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/toml.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

constexpr const char* prefix = "ATHANOR_DEVICE_";
constexpr int64_t largest = int64_t{1} << 50;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_known(const std::string& property) {
  const auto& all = Overrides::properties();
  return std::find(all.begin(), all.end(), property) != all.end();
}

}  // namespace

const std::vector<std::string>& Overrides::properties() {
  static const std::vector<std::string> all = {"compute_units"};
  return all;
}

Overrides::Overrides(const Machine& machine) {
  for (const std::string& name : machine.environment_names()) {
    if (!name.starts_with(prefix)) continue;
    const std::string property = lower(name.substr(std::string(prefix).size()));
    const std::string text = machine.environment(name).value_or("");
    int64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!is_known(property))
      problems_.push_back(
          fmt::format("{} means nothing. {}", name, nearest_hint(property, {"compute_units"})));
    else if (text.empty() || end.ptr != text.data() + text.size() || value <= 0 || value > largest)
      problems_.push_back(fmt::format("{}='{}' is not a number of units and is left out", name, text));
    else
      everywhere_[property] = value;
  }
  const auto config = machine.environment("XDG_CONFIG_HOME");
  const std::string folder = config && !config->empty() ? *config : path_in(machine.user().home, ".config");
  const std::string file = path_in(folder, "athanor/devices.toml");
  const auto text = machine.read(file);
  if (!text) return;
  try {
    const nlohmann::json all = parse_toml(*text, file);
    for (const auto& [device, values] : all.items()) {
      if (!values.is_object()) {
        problems_.push_back(fmt::format("{}: '{}' should be a table, named after a device", file, device));
        continue;
      }
      std::map<std::string, int64_t> good;
      for (const auto& [property, value] : values.items())
        if (is_known(property) && value.is_number_integer() && value > 0 && value <= largest)
          good[property] = value;
        else
          problems_.push_back(
              fmt::format("{}: '{}' of '{}' is left out: only compute_units, a number, can be set", file,
                          property, device));
      by_device_.emplace_back(device, std::move(good));
    }
  } catch (const Error& error) {
    problems_.emplace_back(error.what());
  }
}

std::optional<int64_t> Overrides::find(const std::string& property,
                                       const std::vector<std::string>& names) const {
  if (const auto found = everywhere_.find(property); found != everywhere_.end()) return found->second;
  for (const auto& [device, values] : by_device_)
    for (const std::string& name : names)
      if (matches_pattern(lower(name), lower(device)))
        if (const auto found = values.find(property); found != values.end()) return found->second;
  return std::nullopt;
}

void add_overrides(std::vector<FoundDevice>& devices, const Machine& machine) {
  const Overrides overrides(machine);
  if (overrides.empty()) return;
  for (FoundDevice& device : devices) {
    if (device.kind == "cpu") continue;
    std::vector<std::string> names{device.name, device.text("pci_address")};
    for (const BackendUse& use : device.backends) names.push_back(use.device);
    std::erase(names, "");
    for (const std::string& property : Overrides::properties())
      if (const auto value = overrides.find(property, names)) {
        Fact& fact = device.properties[property];
        Reading reading{*value, "user", "for scheduling heuristics only"};
        if (fact.in_use.source.empty())
          fact.in_use = std::move(reading);
        else
          fact.others.push_back(std::move(reading));
      }
  }
}

}  // namespace athanor
