// athanor completion and athanor man: made from the command line itself.
#include "athanor/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"

namespace athanor::cli {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// In single quotes, for any shell.
std::string shell_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// ---- bash ----

std::string bash_words(const CommandFacts& command) {
  std::vector<std::string> words;
  for (const CommandFacts& sub : command.commands) words.push_back(sub.path.back());
  for (const OptionFacts& option : command.options)
    for (const std::string& name : option.names) words.push_back(name);
  return join(words, " ");
}

std::string bash_values(const CommandFacts& command) {
  std::string text;
  for (const OptionFacts& option : command.options) {
    if (option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names)
      patterns.push_back(fmt::format("'{} {}'", path_text(command, " "), name));
    text += fmt::format("    {}) choices={}; files={} ;;\n", join(patterns, "|"),
                        shell_quoted(join(option.choices, " ")), option.files ? 1 : 0);
  }
  return text;
}

// ---- zsh ----

/// A description inside the "[...]" of a specification in single quotes.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return replaced(escaped, "'", "'\\''");
}

std::string zsh_value(const OptionFacts& option) {
  if (option.files && !option.choices.empty())
    return fmt::format(R"x(:{}:{{_alternative "choices\:name\:({})" "files\:file\:_files"}})x",
                       zsh_text(option.value), join(option.choices, " "));
  if (option.files) return fmt::format(":{}:_files", zsh_text(option.value));
  if (!option.choices.empty())
    return fmt::format(":{}:({})", zsh_text(option.value), join(option.choices, " "));
  return fmt::format(":{}: ", zsh_text(option.value));
}

std::string zsh_name(const CommandFacts& command) {
  return command.path.empty() ? "_athanor" : "_athanor_" + path_text(command, "_");
}

std::string zsh_function(const CommandFacts& command) {
  std::string text = zsh_name(command) + "() {\n";
  if (!command.commands.empty()) text += "  local context state state_descr line\n  typeset -A opt_args\n";
  text += "  _arguments -S";
  if (!command.commands.empty()) text += " -C";
  for (const OptionFacts& option : command.options)
    for (const std::string& name : option.names)
      text += fmt::format(" \\\n    '{}{}[{}]{}'", name,
                          option.value.empty()     ? ""
                          : name.starts_with("--") ? "="
                                                   : "",
                          zsh_text(option.help), option.value.empty() ? "" : zsh_value(option));
  if (command.commands.empty()) {
    for (const OptionFacts& word : command.words)
      text += fmt::format(" \\\n    '{}{}'", word.value.ends_with("...") ? "*" : "1", zsh_value(word));
    return text + "\n}\n";
  }
  text +=
      " \\\n    '1: :->command' \\\n    '*:: :->rest'\n  case $state in\n    command)\n      local -a "
      "commands=(\n";
  for (const CommandFacts& sub : command.commands)
    text += fmt::format("        '{}:{}'\n", sub.path.back(), zsh_text(sub.help));
  text += "      )\n      _describe command commands ;;\n    rest)\n      case $line[1] in\n";
  for (const CommandFacts& sub : command.commands)
    text += fmt::format("        {}) {} ;;\n", sub.path.back(), zsh_name(sub));
  return text + "      esac ;;\n  esac\n}\n";
}

// ---- fish ----

std::string fish_rules(const CommandFacts& command) {
  const std::string at = fmt::format("complete -c athanor -n '__athanor_at \"{}\"'", path_text(command, " "));
  const auto text_of = [](const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  std::string text;
  for (const CommandFacts& sub : command.commands)
    text += fmt::format("{} -a {} -d {}\n", at, sub.path.back(), text_of(sub.help));
  for (const OptionFacts& option : command.options) {
    text += at;
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.value.empty()) text += option.files ? " -r -F" : " -x";
    if (!option.choices.empty()) text += " -a " + text_of(join(option.choices, " "));
    text += " -d " + text_of(option.help) + "\n";
  }
  for (const OptionFacts& word : command.words) {
    if (word.files) text += at + " -F\n";
    if (!word.choices.empty()) text += at + " -a " + text_of(join(word.choices, " ")) + "\n";
  }
  return text;
}

// ---- the manual page ----

/// Escapes text, so that nothing in it is a request or an escape.
std::string roff(const std::string& text) {
  std::string escaped = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  for (const char first : {'.', '\''})
    if (escaped.starts_with(first)) escaped.insert(0, "\\&");
  return replaced(replaced(escaped, "\n.", "\n\\&."), "\n'", "\n\\&'");
}

std::string roff_option(const OptionFacts& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names)
    names.push_back(fmt::format("\\fB{}\\fR{}", roff(name),
                                option.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(option.value))));
  if (names.empty()) names.push_back(fmt::format("\\fI{}\\fR", roff(option.value)));
  return fmt::format(".TP\n{}\n{}\n", join(names, ", "), roff(option.help));
}

std::string roff_command(const CommandFacts& command) {
  std::string words;
  for (const OptionFacts& word : command.words) words += " \\fI" + roff(word.value) + "\\fR";
  std::string text =
      fmt::format(".SS athanor {}\n.B athanor {}\n[\\fIOPTIONS\\fR]{}\n.PP\n{}.\n",
                  roff(path_text(command, " ")), roff(path_text(command, " ")), words, roff(command.help));
  for (const OptionFacts& word : command.words) text += roff_option(word);
  for (const OptionFacts& option : command.options)
    if (option.names.back() != "--help") text += roff_option(option);
  if (!command.footer.empty()) text += ".PP\n" + roff(command.footer) + "\n";
  return text;
}

}  // namespace

std::string bash_completion(const CommandFacts& program) {
  std::string paths, values, words;
  for (const CommandFacts* command : all_commands(program)) {
    const std::string path = path_text(*command, " ");
    if (!path.empty()) paths += fmt::format("      {}) path={} ;;\n", shell_quoted(path), shell_quoted(path));
    values += bash_values(*command);
    std::string own = bash_words(*command);
    bool takes_files = false;
    for (const OptionFacts& word : command->words) {
      for (const std::string& choice : word.choices) own += " " + choice;
      takes_files |= word.files;
    }
    words += fmt::format("    {}) choices={}; files={} ;;\n", shell_quoted(path), shell_quoted(own),
                         takes_files ? 1 : 0);
  }
  return fmt::format(R"(# Completion of athanor for bash, made by 'athanor completion bash'.
_athanor() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path= choices= files=0 i
  # "--model=cnn" is three words: bash breaks at the equals sign.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{path:+$path }}${{COMP_WORDS[i]}}" in
{}    esac
  done
  case "$path $previous" in
{}    *)
  case "$path" in
{}  esac ;;
  esac
  COMPREPLY=()
  [[ -n $choices ]] && mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
  if ((files)) && [[ $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _athanor athanor
)",
                     paths, values, words);
}

std::string zsh_completion(const CommandFacts& program) {
  std::string text = "#compdef athanor\n# Completion of athanor for zsh, made by 'athanor completion zsh'.\n";
  for (const CommandFacts* command : all_commands(program)) text += zsh_function(*command);
  return text +
         "if [[ $funcstack[1] == _athanor ]]; then _athanor \"$@\"; else compdef _athanor athanor; fi\n";
}

std::string fish_completion(const CommandFacts& program) {
  std::vector<std::string> paths;
  for (const CommandFacts* command : all_commands(program))
    if (!command->path.empty()) paths.push_back(shell_quoted(path_text(*command, " ")));
  std::string text = fmt::format(R"(# Completion of athanor for fish, made by 'athanor completion fish'.
function __athanor_at
  set -l path ''
  set -l typed (commandline -opc)
  set -e typed[1]
  for word in $typed
    set -l longer (string trim -- "$path $word")
    contains -- $longer {}; and set path $longer
  end
  test "$path" = "$argv[1]"
end
complete -c athanor -f
)",
                                 join(paths, " "));
  for (const CommandFacts* command : all_commands(program)) text += fish_rules(*command);
  return text;
}

std::string manual_page(const CommandFacts& program) {
  std::string text = fmt::format(
      ".TH ATHANOR 1 \"\" \"Athanor {}\" \"User Commands\"\n.SH NAME\nathanor \\- {}\n.SH SYNOPSIS\n"
      ".B athanor\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}\n"
      "Every command and option is described below; \\fBathanor \\fICOMMAND\\fB \\-\\-help\\fR says the "
      "same.\n",
      ATHANOR_VERSION, roff("train neural networks, and show what runs"), roff(program.help));
  text += ".SH OPTIONS\n";
  for (const OptionFacts& option : program.options) text += roff_option(option);
  text += ".SH COMMANDS\n";
  for (const CommandFacts* command : all_commands(program))
    if (!command->path.empty()) text += roff_command(*command);
  text +=
      ".SH EXIT STATUS\n.TP\n0\nAll went well.\n.TP\n1\nSomething failed, as a message says.\n.TP\n2\n"
      "Wrong command line.\n.TP\n130\nCtrl\\-C; 128 and its number for any other signal.\n";
  return text;
}

void add_completion(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "completion", "Print what a shell needs to complete commands and options, or the manual page");
  const auto kind = std::make_shared<std::string>();
  suggest(command->add_option("KIND", *kind, "the shell; or man, for the manual page"),
          {"bash", "zsh", "fish", "man"})
      ->required()
      ->option_text("bash|zsh|fish|man");
  command->footer(
      "For bash: source <(athanor completion bash). For zsh and fish, write it into a folder of $fpath as "
      "_athanor, or to ~/.config/fish/completions/athanor.fish. An installed Athanor has them in place.");
  command->callback([&program, kind, &exit_code] {
    const CommandFacts facts = command_line_of(program);
    if (*kind == "bash")
      std::cout << bash_completion(facts);
    else if (*kind == "zsh")
      std::cout << zsh_completion(facts);
    else if (*kind == "fish")
      std::cout << fish_completion(facts);
    else if (*kind == "man")
      std::cout << manual_page(facts);
    else
      throw Error(ErrorCode::usage, fmt::format("there is no completion for '{}'", *kind), "KIND",
                  nearest_hint(*kind, {"bash", "zsh", "fish", "man"}));
    exit_code = 0;
  });
}

}  // namespace athanor::cli
