// The program's options and commands, read from the parser itself. Shell completion and the manual page are
// made from this, so they agree with --help.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace athanor::cli {

struct OptionFacts {
  std::vector<std::string> names;    // "-h", "--help"; {} for a word without a name
  std::string value;                 // "N", "NAME|DIR"; "" for a flag
  std::vector<std::string> choices;  // the values that it may have, as far as they are known
  bool files = false;                // whether it may be a file or a folder
  std::string help;
};

struct CommandFacts {
  std::vector<std::string> path;  // {"kernels", "dump"}; {} for the program itself
  std::string help, footer;
  std::vector<OptionFacts> options;  // options with names
  std::vector<OptionFacts> words;    // words without names
  std::vector<CommandFacts> commands;
};

CommandFacts command_line_of(const CLI::App& program);

/// Every command, the program itself first.
std::vector<const CommandFacts*> all_commands(const CommandFacts& program);

/// "kernels dump", with `separator` between the words.
std::string path_text(const CommandFacts& command, const char* separator);

/// Records the values that an option may have, for completion. The value is checked where it is read.
CLI::Option* suggest(CLI::Option* option, const std::vector<std::string>& choices);

/// The values of --device on any machine: "auto", "gpu", and the first device of each backend.
std::vector<std::string> device_words();
/// The same for its help: "auto, gpu, cpu, cuda:0, ...".
std::string device_help();

}  // namespace athanor::cli
