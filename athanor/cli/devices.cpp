// athanor devices
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/cli/commands.h"
#include "athanor/device/device.h"

namespace athanor::cli {
namespace {

nlohmann::ordered_json to_json(const DeviceInfo& info) {
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  for (const auto& [name, property] : info.properties)
    properties[name] = {{"value", property.value}, {"source", property.source}};
  return {{"device", to_string(info.device)},
          {"name", info.name},
          {"kind", info.kind},
          {"memory_bytes", info.memory_bytes},
          {"properties", properties}};
}

int list(bool json) {
  const auto devices = list_devices();
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const DeviceInfo& info : devices) all.push_back(to_json(info));
    std::cout << all.dump() << '\n';
    return 0;
  }
  for (const DeviceInfo& info : devices) {
    std::cout << fmt::format("{}: {}\n", to_string(info.device), info.name);
    for (const auto& [name, property] : info.properties)
      std::cout << fmt::format("  {:<20} {}  (from {})\n", name, property.value, property.source);
  }
  return 0;
}

}  // namespace

void add_devices(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("devices", "List the devices here, and where what is known of them comes from");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print one line of JSON");
  command->callback([json, &exit_code] { exit_code = list(*json); });
}

}  // namespace athanor::cli
