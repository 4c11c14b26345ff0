// athanor detect
#include "athanor/device/detect.h"
#include "athanor/device/provider_names.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/text.h"
#include "athanor/cli/apart.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/detect_text.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/probe_text.h"
#include "athanor/cli/recorded.h"
#include "athanor/cli/terminal.h"
#include "athanor/cli/topology_text.h"

namespace athanor::cli {
namespace {

struct DetectOptions {
  bool json = false, all = false, topology = false, probe = false;
  double memory_seconds = 0;
  double patience = 90;  // longer than the tuner waits for a kernel
  std::string root, svg, device;
};

bool is_asked(const DetectOptions& options, const BackendUse& use) {
  return use.usable && (options.device.empty() || options.device == use.device);
}

// Throws for an unknown name, because with it nothing would be measured, without a message.
void know_device(const Detection& found, const std::string& name) {
  std::vector<std::string> names;
  for (const FoundDevice& device : found.devices)
    for (const BackendUse& use : device.backends)
      if (use.usable) names.push_back(use.device);
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw Error(ErrorCode::usage, fmt::format("there is no device '{}'", name), "--device",
              names.empty() ? "Nothing here can be used" : "There are: " + join(names));
}

ProbeResults measure(Detection& found, const DetectOptions& options) {
  Doing doing("measuring");
  ProbeResults results;
  for (FoundDevice& device : found.devices) {
    const auto count = [&](const std::string& backend) {  // "": any
      return std::count_if(device.backends.begin(), device.backends.end(), [&](const BackendUse& use) {
        return use.usable && (backend.empty() || use.backend == backend);
      });
    };
    for (const BackendUse& use : device.backends) {
      if (!is_asked(options, use)) continue;
      ProbedApart measured =
          probe_apart(use.device, options.patience, [&](const std::string& what, const std::string& how_far) {
            doing.say(use.device + ", " + what, how_far);
          });
      add_measurements(device, measured.measurements,
                       count("") == 1            ? "probe"
                       : count(use.backend) == 1 ? "probe " + use.backend
                                                 : "probe " + use.device);
      results.devices.push_back(
          {device.name, use.device, std::move(measured.measurements), std::move(measured.problem)});
    }
    for (Shortfall& one : find_shortfalls(device)) results.shortfalls.push_back(std::move(one));
  }
  return results;
}

int run(const DetectOptions& options) {
  if (!options.root.empty() && (options.probe || options.memory_seconds > 0))
    throw Error(ErrorCode::usage, "a recorded machine cannot be measured", "--root",
                "Leave out --root, or --probe and --memtest");
  const Machine machine = machine_at(options.root);
  Detection found = detect(machine);
  if (options.probe || options.memory_seconds > 0)
    know_device(found, options.device);
  else if (!options.device.empty())
    throw Error(ErrorCode::usage, "--device is for --probe and --memtest", "--device",
                "Without them every device is listed");
  if (options.memory_seconds > 0)
    return test_memories(found, {options.device, options.memory_seconds, options.patience, options.json});
  std::optional<ProbeResults> probed;
  if (options.probe) {
    const InterruptScope held;
    probed = measure(found, options);
  }
  const auto failed = machine.live() ? failed_examinations() : std::vector<FailedExamination>();
  std::optional<Topology> topology;
  if (options.topology || !options.svg.empty()) topology = read_topology(machine, found);
  if (!options.svg.empty()) write_file_atomically(options.svg, topology_svg(*topology, found));
  if (options.json) {
    auto json = to_json(found);
    if (topology) json["topology"] = to_json(*topology);
    if (probed) json["probe"] = to_json(*probed);
    for (const FailedExamination& one : failed)
      json["failed_examinations"].push_back(
          {{"device", one.device}, {"driver", one.driver}, {"what", one.what}});
    std::cout << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  } else if (options.topology) {
    std::cout << topology_text(*topology, found, screen_of_stdout());
  } else {
    std::cout << describe(found, screen_of_stdout(), report_columns(), options.all)
              << describe(failed, screen_of_stdout(), report_columns());
    if (probed) std::cout << describe(*probed, screen_of_stdout());
  }
  return 0;
}

}  // namespace

void add_detect(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "detect", "List every compute device, what is known about it, and from which source");
  const auto options = std::make_shared<DetectOptions>();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--all", options->all, "print every property");
  command->add_flag("--probe", options->probe,
                    "measure rates, bandwidths and latencies, and compare with the data sheet");
  add_seconds(*command, "--memtest", options->memory_seconds, "test device memory for this long");
  command
      ->add_option("--device", options->device,
                   "probe or test only this one: " + join(first_device_names()) + ", ...")
      ->type_name("NAME");
  add_seconds(*command, "--patience", options->patience,
              "give up on a device that does nothing for this long (default: 90)");
  command->add_flag("--topology", options->topology,
                    "print how processors, memory and devices are connected");
  command->add_option("--svg", options->svg, "with --topology: draw it to a file")->type_name("FILE");
  command->add_option("--root", options->root, "look at the machine recorded in this folder")
      ->type_name("DIR");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace athanor::cli
