// --help, in the width of the terminal.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace athanor::cli {

/// Help with lines of at most `columns` columns. Descriptions keep their indent.
class WrappedHelp : public CLI::Formatter {
 public:
  explicit WrappedHelp(int columns);
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  int columns_;
};

}  // namespace athanor::cli
