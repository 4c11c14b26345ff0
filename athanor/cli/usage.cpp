#include "athanor/cli/usage.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/text.h"

namespace athanor::cli {
namespace {

std::string help_hint(const CLI::App& command, const CLI::App& program) {
  return &command == &program ? "See 'athanor --help'"
                              : fmt::format("See 'athanor {} --help'", command.get_name());
}

Error unknown_word(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> unknown = program.remaining(true);
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with('-');
  std::vector<std::string> known;
  if (is_option) {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else if (&command == &program) {
    for (const CLI::App* sub : program.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  }
  const std::string near = nearest(word, {known.begin(), known.end()});
  const char* what = is_option              ? "there is no option '{}'"
                     : &command == &program ? "there is no command '{}'"
                                            : "'{}' was not expected";
  return {ErrorCode::usage,
          fmt::format(fmt::runtime(what), word),
          {},
          near.empty() ? help_hint(command, program)
                       : fmt::format("Did you mean '{}'? {}", near, help_hint(command, program))};
}

}  // namespace

Error usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !program.remaining(true).empty())
    return unknown_word(program, command);
  std::string problem = error.what();
  // CLI11's words for a value of the wrong type are "Could not convert: --epochs = many".
  constexpr std::string_view conversion = "Could not convert: ";
  if (const size_t equals = problem.find(" = ");
      problem.starts_with(conversion) && equals != std::string::npos)
    return {ErrorCode::usage, fmt::format("'{}' is not a number that fits", problem.substr(equals + 3)),
            problem.substr(conversion.size(), equals - conversion.size()), help_hint(command, program)};
  return {ErrorCode::usage, problem, {}, help_hint(command, program)};
}

void refuse_zero(const CLI::App& command, std::initializer_list<const char*> options) {
  for (const char* name : options)
    if (const CLI::Option* option = command.get_option(name);
        option->count() > 0 && option->as<int64_t>() == 0)
      throw Error(ErrorCode::usage, "0 is too small", name, "Give a whole number from 1 on, or leave it out");
}

}  // namespace athanor::cli
