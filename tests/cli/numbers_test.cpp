// Every option of every command that takes a number: a value that is not a number or out of range is a usage
// error that names the option.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/matches.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_program;
using testing::TempFolder;
using Words = std::vector<std::string>;

std::string help_of(const TempFolder& folder, Words command) {
  command.emplace_back("--help");
  return run_program(folder.path(), command).out;
}

/// Every command that has no subcommands, with a word for each required argument.
std::vector<Words> all_commands(const TempFolder& folder, const Words& command = {}) {
  const std::string help = help_of(folder, command);
  std::vector<Words> found;
  const size_t listed = help.find("\nSubcommands:");
  if (listed != std::string::npos) {
    for (const testing::Match& at : testing::matches(help.substr(listed), "\n  ([a-z-]+)(?= )")) {
      Words inner = command;
      inner.push_back(at[1]);
      for (Words& one : all_commands(folder, inner)) found.push_back(std::move(one));
    }
    return found;
  }
  Words words = command;
  const size_t places = help.find("\nPositionals:");
  if (places != std::string::npos) words.emplace_back("a.png");
  if (command == Words{"kernels", "dump"}) words.insert(words.end(), {"--out", "d"});
  return {words};
}

/// The options that the command's help shows with one of these kinds of value.
Words options_with(const TempFolder& folder, const Words& command, const std::string& kinds) {
  const std::string help = help_of(folder, command);
  Words found;
  for (const testing::Match& at : testing::matches(help, "\n +(--[a-z-]+) (" + kinds + ") "))
    found.push_back(at[1]);
  return found;
}

void expect_refused(const TempFolder& folder, Words words, const std::string& option,
                    const std::string& value) {
  words.push_back(option + "=" + value);
  const Outcome outcome = run_program(folder.path(), words);
  const std::string shown = ::testing::PrintToString(words) + ": " + outcome.err;
  EXPECT_EQ(outcome.exit_code, 2) << shown;
  EXPECT_EQ(outcome.out, "") << shown;
  EXPECT_THAT(outcome.err, HasSubstr(option)) << shown;
  EXPECT_THAT(outcome.err, HasSubstr(value)) << shown;
  EXPECT_LT(outcome.err.size(), 250U) << shown;
}

TEST(Numbers, OfEveryOptionAreCheckedWhole) {
  const TempFolder folder;
  const std::vector<Words> commands = all_commands(folder);
  for (const Words& known : {Words{"fit"}, {"data", "a.png"}, {"kernels", "dump", "--out", "d"}})
    EXPECT_THAT(commands, Contains(known));
  size_t tried = 0;
  for (const Words& command : commands) {
    for (const std::string& option : options_with(folder, command, "N|RANK"))
      for (const char* value : {"abc", "-1", "7x", "0x10", "1e3", "2.5", "99999999999999999999", "nan"}) {
        expect_refused(folder, command, option, value);
        ++tried;
      }
    for (const std::string& option : options_with(folder, command, "X|SECONDS"))
      for (const char* value : {"abc", "-1", "7x", "0x10", "1e999", "nan", "inf"}) {
        expect_refused(folder, command, option, value);
        ++tried;
      }
    for (const std::string& option : options_with(folder, command, "SIZE"))
      for (const char* value : {"abc", "-1", "0", "7x", "2XiB", "1e30", "nan", "inf", "2GiBs"}) {
        expect_refused(folder, command, option, value);
        ++tried;
      }
  }
  EXPECT_GT(tried, 300U);
}

TEST(Numbers, OfSharesEndBelowOne) {
  const TempFolder folder;
  for (const char* value : {"-1", "1", "1e3", "99999999999999999999"}) {
    std::string train, data;
    for (const Words& command : {Words{"train"}, {"data", "./d"}}) {
      Words words = command;
      words.push_back(std::string("--validation=") + value);
      const Outcome outcome = run_program(folder.path(), words);
      EXPECT_EQ(outcome.exit_code, 2) << value << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("--validation"));
      (train.empty() ? train : data) = outcome.err;
    }
    EXPECT_EQ(train, data);
  }
}

TEST(Numbers, OfOneOptionHaveOneRangeInEveryCommand) {
  const TempFolder folder;
  for (const char* option : {"--lora", "--context", "--batch-size", "--threads"})
    for (const char* value : {"0", "-1", "999999999999"}) {
      const std::string word = std::string(option) + "=" + value;
      const Outcome train = run_program(folder.path(), {"train", "--model=gpt2-nano", word});
      EXPECT_EQ(train.exit_code, 2) << word << train.err;
      for (const Words& command : {Words{"fit"}, {"explain"}, {"tune"}, {"kernels", "dump", "--out", "d"}}) {
        Words words = command;
        words.insert(words.end(), {"--model=gpt2-nano", word});
        const Outcome outcome = run_program(folder.path(), words);
        EXPECT_EQ(outcome.exit_code, 2) << command.front() << outcome.err;
        EXPECT_EQ(outcome.err, train.err) << command.front();
      }
    }
}

TEST(Numbers, OfShapesAreCheckedToo) {
  const TempFolder folder;
  for (const char* value : {"1,28", "1,28,abc", "1,28,28,28", "1,-28,28", "0,28,28",
                            "1,28,99999999999999999999", "9000000000000000000,9000000000000000000,2"})
    expect_refused(folder, {"explain", "--device=cpu"}, "--input", value);
  for (const char* value : {"8x8", "8x8x0", "8x8x8x8x8", "8x8x8x99999999999999999999", "8x8xabc"})
    expect_refused(folder, {"tune", "--device=cpu"}, "--gemm", value);
  for (const char* value :
       {"1,3,8,8,4", "1,3,8,8,4,0", "1,3,8,8,4,3,0", "1,3,8,8,4,3,1,-1", "1,3,8,8,4,3,1,1,1"})
    expect_refused(folder, {"tune", "--device=cpu"}, "--conv", value);
}

TEST(Numbers, OfATunedProblemHaveThePrecisionThatWasAskedFor) {
  const TempFolder folder;
  for (const char* problem : {"--gemm=8x8x8", "--conv=1,3,8,8,4,3"}) {
    const Outcome low = run_program(folder.path(), {"tune", "--device=cpu", problem, "--precision=bf16"});
    if (low.exit_code == 0)
      EXPECT_THAT(low.out, AllOf(HasSubstr(" bf16["), Not(HasSubstr(" f32[")))) << problem;
    else  // oneDNN has no such convolution without AVX-512
      EXPECT_THAT(low.err, HasSubstr("no kernel for conv2d bf16[")) << problem;
    for (const char* wrong : {"--precision=i8", "--precision=tf32"}) {
      const Outcome outcome = run_program(folder.path(), {"tune", "--device=cpu", problem, wrong});
      EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
      EXPECT_THAT(outcome.err, HasSubstr("precision")) << problem;
    }
  }
}

TEST(Numbers, ThatStandForTheDefaultAreRefusedAlike) {
  const TempFolder folder;
  for (const char* option : {"--max-steps", "--threads"}) {
    const Outcome zero = run_program(folder.path(), {"train", option, "0"});
    const Outcome negative = run_program(folder.path(), {"train", option, "-1"});
    EXPECT_EQ(zero.exit_code, 2);
    EXPECT_THAT(zero.err, HasSubstr("whole number from 1 on"));
    EXPECT_EQ(testing::replaced(zero.err, "error: 0", "error: -1"), negative.err);
  }
}

TEST(Numbers, AreDecimal) {
  const TempFolder folder;
  const Outcome outcome =
      run_program(folder.path(), {"explain", "--model", "mlp", "--device", "cpu", "--deterministic",
                                  "--batch-size", "010", "--width", "100"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("batch 10:"));
}

}  // namespace
}  // namespace athanor
