#include "athanor/cli/usage.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/text.h"

namespace athanor::cli {
namespace {

std::string help_hint(const CLI::App& command, const CLI::App& program) {
  std::string words;
  for (const CLI::App* at = &command; at != &program; at = at->get_parent())
    words.insert(0, at->get_name() + (words.empty() ? "" : " "));
  return words.empty() ? "See 'athanor --help'" : fmt::format("See 'athanor {} --help'", words);
}

/// Whether the command looks at the step that 'athanor train' makes.
bool is_step_command(const CLI::App& command) {
  return command.get_name() != "train" && command.get_option_no_throw("--accumulate") != nullptr;
}

/// An option that takes one value but was given several.
const CLI::Option* repeated(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
        option->get_items_expected_max() == 1 && option->results().size() > 1)
      return option;
  return nullptr;
}

Error unknown_word(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> unknown = program.remaining(true);
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with('-');
  std::vector<std::string> known;
  if (is_option) {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  }
  if (is_option && is_step_command(command) && program.get_subcommand("train")->get_option_no_throw(word))
    return {ErrorCode::usage,
            fmt::format("{} is an option of 'athanor train' that does not change its step", word),
            {},
            fmt::format("Leave it out; a file for --config may have it. {}", help_hint(command, program))};
  const std::string near = nearest(word, {known.begin(), known.end()});
  const char* what = is_option       ? "there is no option '{}'"
                     : known.empty() ? "'{}' was not expected"
                                     : "there is no command '{}'";
  return {ErrorCode::usage,
          fmt::format(fmt::runtime(what), word),
          {},
          near.empty() ? help_hint(command, program)
                       : fmt::format("Did you mean '{}'? {}", near, help_hint(command, program))};
}

}  // namespace

Error usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* innermost = &program;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().front();
  const CLI::App& command = *innermost;
  // If a word is unknown and another is missing, the unknown word is the likelier mistake.
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if ((extra || missing) && !program.remaining(true).empty()) return unknown_word(program, command);
  std::string what = error.what();
  const CLI::Option* const again = repeated(command);
  if (again != nullptr && dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string name = again->get_name();
    what = fmt::format(
        fmt::runtime(name.starts_with('-') ? "{} is given more than once" : "only one {} can be given"),
        name);
  }
  return {ErrorCode::usage, what, {}, help_hint(command, program)};
}

}  // namespace athanor::cli
