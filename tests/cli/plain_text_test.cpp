// Without Unicode in the locale, every command that prints marks, dots or lines prints only ASCII.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/cli/program_test.h"
#include "tests/doctor/fixture.h"

namespace athanor {
namespace {

using testing::Outcome;
using testing::UnpackedMachine;

class InALocale : public testing::ProgramTest {
 protected:
  std::vector<Words> commands() const {
    const std::string root = machine_.root().string();
    return {{"detect", "--root", root},
            {"detect", "--root", root, "--all"},
            {"detect", "--root", root, "--topology"},
            {"doctor", "--root", root},
            {"doctor", "--root", root, "--fix", "--dry-run"},
            {"doctor", "--root", root, "--plan", "pytorch"},
            {"doctor", "--list"},
            {"doctor", "history"},
            {"explain", "--model", "mlp"},
            {"cache", "ls"},
            {"--help"},
            {"train", "--help"},
            {"train", "--frobnicate"}};
  }
  UnpackedMachine machine_{"doctor/row15-integrated-and-discrete"};
};

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

TEST_F(InALocale, WithoutUnicodePrintsAscii) {
  set_variable("LC_ALL", "C");
  for (const auto& command : commands()) {
    const Outcome outcome = run(command);
    EXPECT_TRUE(is_ascii(outcome.out)) << ::testing::PrintToString(command) << outcome.out;
    EXPECT_TRUE(is_ascii(outcome.err)) << ::testing::PrintToString(command) << outcome.err;
  }
}

TEST_F(InALocale, WithUnicodePrintsIt) {
  set_variable("LC_ALL", "C.UTF-8");
  for (const size_t i : {2U, 3U}) EXPECT_FALSE(is_ascii(run(commands()[i]).out)) << i;
}

}  // namespace
}  // namespace athanor
