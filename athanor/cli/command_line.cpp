#include "athanor/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/device/provider_names.h"

namespace athanor::cli {
namespace {

// CLI11 shows the values that a validator accepts as "{a,b,c}" behind the type's name.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return split(type.substr(open + 1, close - open - 1), ',');
}

std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  if (!option.get_option_text().empty()) return option.get_option_text();
  return option.get_type_name().substr(0, option.get_type_name().find(':'));
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts{.names = {},
                    .value = value_of(option),
                    .choices = choices_of(option),
                    .files = false,
                    .help = option.get_description()};
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (facts.names.empty()) facts.value = option.get_name(true) + (facts.value == "..." ? " ..." : "");
  const std::string all = facts.value + " " + option.get_name(true);
  for (const char* word : {"FILE", "DIR", "PATH", "IMAGE", "RUN", "checkpoint"})
    facts.files |= all.find(word) != std::string::npos;
  return facts;
}

CommandFacts facts_of(const CLI::App& app, std::vector<std::string> path) {
  CommandFacts facts{.path = std::move(path),
                     .help = app.get_description(),
                     .footer = app.get_footer(),
                     .options = {},
                     .words = {},
                     .commands = {}};
  for (const CLI::Option* option : app.get_options()) {
    const OptionFacts one = facts_of(*option);
    if (!one.names.empty()) facts.options.push_back(one);
    if (option->get_positional()) {
      facts.words.push_back(one);
      facts.words.back().names.clear();
    }
  }
  // A command without a group is only for the program itself.
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    std::vector<std::string> longer = facts.path;
    longer.push_back(sub->get_name());
    facts.commands.push_back(facts_of(*sub, std::move(longer)));
  }
  return facts;
}

void collect_commands(const CommandFacts& command, std::vector<const CommandFacts*>& all) {
  all.push_back(&command);
  for (const CommandFacts& sub : command.commands) collect_commands(sub, all);
}

}  // namespace

CommandFacts command_line_of(const CLI::App& program) { return facts_of(program, {}); }

std::vector<const CommandFacts*> all_commands(const CommandFacts& program) {
  std::vector<const CommandFacts*> all;
  collect_commands(program, all);
  return all;
}

std::string path_text(const CommandFacts& command, const char* separator) {
  return join(command.path, separator);
}

CLI::Option* suggest(CLI::Option* option, const std::vector<std::string>& choices) {
  return option->check(
      CLI::Validator([](std::string&) { return std::string(); }, fmt::format("{{{}}}", join(choices, ","))));
}

std::vector<std::string> device_words() {
  std::vector<std::string> words = first_device_names();
  words.insert(words.begin(), {"auto", "gpu"});
  return words;
}

std::string device_help() { return join(device_words()) + ", ..."; }

}  // namespace athanor::cli
