// athanor detect
#include "athanor/device/detect.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/cli/commands.h"
#include "athanor/cli/detect_text.h"
#include "athanor/cli/terminal.h"

namespace athanor::cli {
namespace {

struct Options {
  bool json = false, all = false;
  std::string root;
};

int run(const Options& options) {
  const Machine machine = options.root.empty() ? Machine() : Machine(options.root);
  const Detection found = detect(machine);
  if (options.json)
    std::cout << to_json(found).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  else
    std::cout << describe(found, screen_of_stdout(), options.all);
  return 0;
}

}  // namespace

void add_detect(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("detect", "Every compute device here, and where what is known of it comes from");
  const auto options = std::make_shared<Options>();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--all", options->all, "print every property");
  command->add_option("--root", options->root, "look at the machine recorded in this folder")
      ->type_name("DIR");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace athanor::cli
