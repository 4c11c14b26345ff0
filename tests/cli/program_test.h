// The base of tests of the program: a folder in which it runs, and environment variables for it.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {

class ProgramTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  ~ProgramTest() override {
    for (const auto& [name, value] : before_)
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
  }

  /// `out`: the file for its output, instead of one in the folder.
  Outcome run(const Words& words, const std::filesystem::path& out = {}) const {
    return run_program(folder_.path(), words, out);
  }
  std::string text(const std::string& file) const { return read_text_file(folder_ / file); }
  /// Lines are not wrapped, however long the path of the temporary folder is.
  void show_whole_lines() { set_variable("COLUMNS", "1000"); }
  /// The variable is reset when the test ends.
  void set_variable(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    setenv(name.c_str(), value.c_str(), 1);
  }

  TempFolder folder_{TempFolder::Where::memory};  // in memory, because runs flush what they save

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace athanor::testing
