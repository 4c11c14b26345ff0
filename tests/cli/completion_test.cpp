// Completion offers what --help lists. bash is asked as if a user typed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "athanor/base/text.h"
#include "tests/cli/program_test.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

class Completion : public testing::ProgramTest {
 protected:
  void SetUp() override {
    for (const char* kind : {"bash", "zsh", "fish", "man"}) {
      const auto outcome = run({"completion", kind});
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      write_file_atomically(folder_ / kind, outcome.out);
    }
    write_file_atomically(folder_ / "picture.png", "");
  }

  std::string shell(const std::string& command) const {
    const std::string all = "cd '" + folder_.path().string() + "' && (" + command + ") > answer 2>&1";
    EXPECT_EQ(std::system(all.c_str()), 0) << command << "\n" << read_text_file(folder_ / "answer");
    return read_text_file(folder_ / "answer");
  }
  static bool has(const char* program) {
    return std::system((std::string("command -v ") + program + " > /dev/null").c_str()) == 0;
  }

  /// The completions that bash offers for the last of these words.
  Words offered(const Words& words) const {
    std::string typed;
    for (const std::string& word : words) typed += " '" + word + "'";
    std::istringstream lines(shell("bash -c \"source ./bash; COMP_WORDS=(athanor" + typed +
                                   "); COMP_CWORD=" + std::to_string(words.size()) +
                                   "; _athanor; printf '%s\\n' \\\"\\${COMPREPLY[@]}\\\"\""));
    Words result;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) result.push_back(line);
    return result;
  }

  /// The names in a command's help: options, and commands under "Subcommands:".
  std::set<std::string> names_in_help(Words command, bool commands) const {
    command.emplace_back("--help");
    std::string help = run(command).out;
    const size_t at = help.find("\nSubcommands:");
    help = commands ? (at == std::string::npos ? "" : help.substr(at + 13)) : help.substr(0, at);
    const char* const name = commands ? "\n  ([a-z]+) " : "[ ,](--?[a-z-]+)[ ,\n]";
    std::set<std::string> names;
    for (const testing::Match& found : testing::matches(help, name)) names.insert(found[1]);
    return names;
  }

  void expect_all_offered(const Words& command) const {
    Words asked = command;
    asked.emplace_back("");
    const Words answer = offered(asked);
    for (const std::string& name : names_in_help(command, true)) {
      EXPECT_THAT(answer, Contains(name)) << ::testing::PrintToString(command);
      Words inner = command;
      inner.push_back(name);
      expect_all_offered(inner);
    }
    asked.back() = "--";
    const Words options = offered(asked);
    const std::string man = read_text_file(folder_ / "man"), zsh = read_text_file(folder_ / "zsh"),
                      fish = read_text_file(folder_ / "fish");
    for (const std::string& name : names_in_help(command, false)) {
      if (!name.starts_with("--")) continue;
      EXPECT_THAT(options, Contains(name)) << ::testing::PrintToString(command);
      EXPECT_THAT(zsh, HasSubstr(name)) << name;
      EXPECT_THAT(fish, HasSubstr(" -l " + name.substr(2))) << name;
      EXPECT_THAT(man, HasSubstr("\\fB" + testing::replaced(name, "-", "\\-") + "\\fR")) << name;
    }
  }
};

TEST_F(Completion, OffersAllThatTheHelpShows) { expect_all_offered({}); }

TEST_F(Completion, OffersValues) {
  EXPECT_THAT(offered({"train", "--mod"}), UnorderedElementsAre("--model"));
  EXPECT_THAT(offered({"train", "--model", ""}), IsSupersetOf({"mlp", "cnn", "resnet18"}));
  EXPECT_THAT(offered({"train", "--model", "resnet1"}), UnorderedElementsAre("resnet18"));
  EXPECT_THAT(offered({"train", "--model", "=", "c"}), UnorderedElementsAre("cnn"));
  EXPECT_THAT(offered({"train", "--model", "="}), Contains("mlp"));
  EXPECT_THAT(offered({"kernels", "dump", "--target", ""}), UnorderedElementsAre("opencl", "cuda", "hip"));
  EXPECT_THAT(offered({"train", "--data", "fash"}), UnorderedElementsAre("fashion-mnist"));
  EXPECT_THAT(offered({"doctor", "--lang", ""}), UnorderedElementsAre("en", "zh"));
  EXPECT_THAT(offered({"train", "--epochs", ""}), IsEmpty());
  EXPECT_THAT(offered({"predict", "pict"}), UnorderedElementsAre("picture.png"));
  EXPECT_THAT(offered({"train", "pict"}), Not(Contains("picture.png")));
  EXPECT_THAT(offered({"completion", "f"}), UnorderedElementsAre("fish"));
  // A value is not taken for a command.
  EXPECT_THAT(offered({"eval", "--data", "mnist", "--ba"}), UnorderedElementsAre("--batch-size"));
}

// Types the keys in an interactive shell, in a terminal that zsh makes.
TEST_F(Completion, CompletesWhatIsTyped) {
  if (!has("zsh")) GTEST_SKIP() << "zsh is not installed: its completion was not tried";
  const std::string program = "athanor() { echo \"called\" \"with: $*!\"; }\n";
  const std::map<std::string, std::string> setups{
      {"zsh -f -i", program + "autoload -U compinit; compinit -uD; source ./zsh\n"},
      {"bash --norc -i", program + "source ./bash\n"}};
  for (const auto& [interactive, setup] : setups) {
    write_file_atomically(folder_ / "setup", setup);
    for (const auto& [keys, meant] : std::map<std::string, std::string>{
             {R"(tr\t--mod\tcn\t)", "train --model cnn"},
             {R"(train --data fash\t)", "train --data fashion-mnist"},
             {R"(train --augment-on dev\t)", "train --augment-on device"},
             {R"(kernels du\t--targ\thi\t)", "kernels dump --target hip"},
             {R"(predict pict\t)", "predict picture.png"},
             {R"(examine-d\t)", "examine-d"}}) {  // a command that the program runs for itself
      write_file_atomically(
          folder_ / "type",
          fmt::format("zmodload zsh/zpty; zpty one {}; zpty -w one 'source ./setup'; "
                      "zpty -w one $'athanor {}'; zpty -r one said '*called with: *!*'; print $said",
                      interactive, keys));
      const std::string said = shell("timeout 60 zsh -f ./type");
      const size_t at = said.rfind("called with: ") + 13;
      std::string called = said.substr(at, said.find('!', at) - at);
      std::ranges::replace(called, '=', ' ');  // zsh completes to "--model="
      EXPECT_EQ(trim(called), meant) << interactive;
    }
  }
}

TEST_F(Completion, IsRightForEachShell) {
  shell("bash -n bash");
  if (has("zsh")) {
    shell("zsh -n zsh");
    EXPECT_THAT(
        shell("zsh -fc 'autoload -U compinit && compinit -uD && source ./zsh && print $_comps[athanor]'"),
        HasSubstr("_athanor"));
  }
  if (!has("fish")) GTEST_SKIP() << "fish is not installed: its completion was not tried";
  EXPECT_THAT(shell("HOME=$PWD fish -c 'source fish; complete -C \"athanor train --mode\"'"),
              HasSubstr("--model"));
  EXPECT_THAT(shell("HOME=$PWD fish -c 'source fish; complete -C \"athanor kernels dump --target \"'"),
              HasSubstr("hip"));
  EXPECT_THAT(shell("HOME=$PWD fish -c 'source fish; complete -C \"athanor ker\"'"), HasSubstr("kernels"));
  EXPECT_THAT(shell("HOME=$PWD fish -c 'source fish; complete -C \"athanor predict pict\"'"),
              HasSubstr("picture.png"));
}

TEST_F(Completion, MakesAManualPage) {
  if (!has("man")) GTEST_SKIP() << "man is not installed";
  EXPECT_EQ(shell("man --warnings -E UTF-8 -l man 2>&1 > /dev/null"), "");
  const std::string page = shell("MANWIDTH=100 man -E UTF-8 -l man");
  for (const char* text :
       {"athanor train [OPTIONS]", "athanor kernels dump", "--batch-size N", "EXIT STATUS"})
    EXPECT_THAT(page, HasSubstr(text));
}

TEST_F(Completion, NamesTheNearestKind) {
  const auto outcome = run({"completion", "Bahs"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean 'bash'?"));
}

}  // namespace
}  // namespace athanor
