// --help fits the terminal: COLUMNS wide, or 80 without a terminal. The words are the same at any width.
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "athanor/base/text.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

class HelpText : public testing::ProgramTest {
 protected:
  std::string help(Words command, const std::string& columns) {
    set_variable("COLUMNS", columns);
    command.emplace_back("--help");
    return run(command).out;
  }
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST_F(HelpText, FitsItsColumns) {
  for (const Words& command : {Words{}, Words{"train"}, Words{"doctor"}, Words{"explain"},
                               Words{"completion"}, Words{"kernels", "dump"}}) {
    const std::string whole = help(command, "1000");
    for (const char* const columns : {"50", "80", "120"}) {
      const std::string text = help(command, columns);
      EXPECT_EQ(words_of(text), words_of(whole)) << columns;
      for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), std::stoul(columns)) << line;
    }
    EXPECT_EQ(help(command, ""), help(command, "80"));
  }
}

TEST_F(HelpText, KeepsTheIndentOfDescriptions) {
  EXPECT_THAT(help({"train"}, "80"),
              HasSubstr("\n"
                        "  --warm-up N                   steps in which the rate rises to --lr (not with\n"
                        "                                one-cycle)\n"));
}

TEST_F(HelpText, ShowsNoTypesOfWhatHasNoName) {
  EXPECT_THAT(help({"cache", "export"}, "80"), HasSubstr("\n  FILE                          a new file\n"));
}

TEST_F(HelpText, FitsTheTerminal) {
  const winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    unsetenv("COLUMNS");
    setenv("TERM", "xterm", 1);
    execl(ATHANOR_BINARY_DIR "/athanor", "athanor", "train", "--help", nullptr);
    _exit(127);
  }
  ASSERT_GT(child, 0);
  std::string seen;
  std::array<char, 4096> part;
  for (ssize_t count; (count = read(terminal, part.data(), part.size())) > 0;)
    seen.append(part.data(), static_cast<size_t>(count));
  waitpid(child, nullptr, 0);
  close(terminal);
  std::erase(seen, '\r');
  EXPECT_EQ(seen, help({"train"}, "100"));
}

}  // namespace
}  // namespace athanor
