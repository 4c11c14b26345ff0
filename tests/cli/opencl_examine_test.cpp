// A device with wrong results is not used silently. An OpenCL library makes the results wrong
// (tests/support/opencl_faults.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "athanor/base/file.h"
#include "athanor/base/sqlite.h"
#include "athanor/base/text.h"
#include "athanor/device/device.h"
#include "tests/cli/program_test.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Examination : public ProgramTest {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : list_devices()) found_ |= to_string(info.device) == "opencl:0";
    if (!found_) GTEST_SKIP() << "there is no OpenCL device here";
    set_variable("ATHANOR_OPENCL_LIBRARY", ATHANOR_OPENCL_FAULTS);
    set_variable("ATHANOR_TRUST", "0");
    set_variable("ATHANOR_DISABLE", "tune");
  }

  Outcome train(const std::string& fault, Words more = {"--device", "opencl:0"}) {
    set_variable("ATHANOR_FAULT", fault);
    std::filesystem::remove_all(folder_.path() / "run");
    std::vector<std::string> words{"train",        "--model", "mlp",         "--data", "fashion-mnist",
                                   "--batch-size", "16",      "--max-steps", "2",      "--out",
                                   "run"};
    words.insert(words.end(), more.begin(), more.end());
    return Program(folder_.path(), words).wait();
  }
  nlohmann::json summary() const { return nlohmann::json::parse(text("run/summary.json")); }

  bool found_ = false;
};

// Only convolutions are wrong, so that always the same process finds it.
constexpr const char* wrong_convolutions = "wrong:winograd";

TEST_F(Examination, RefusesAWrongDeviceRemembersItAndUsesItWhereTrusted) {
  const Outcome refused = train(wrong_convolutions);
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("examining opencl:0 before its first use"),
                                 HasSubstr("failed its examination: "), HasSubstr("conv2d"),
                                 HasSubstr("element 0 of"), HasSubstr("--trust"), HasSubstr("--device cpu")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/summary.json"));
  // The verdict is remembered, even if the device now computes correctly.
  const Outcome again = train("none");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, AllOf(HasSubstr("failed its examination"), Not(HasSubstr("examining"))));
  const Outcome predicted = run({"explain", "--model", "mlp", "--device", "opencl:0"});
  EXPECT_EQ(predicted.exit_code, 1);
  EXPECT_THAT(predicted.err, HasSubstr("failed its examination"));
  EXPECT_THAT(run({"cache", "ls"}).out, HasSubstr("failed its examination: conv2d"));
  EXPECT_THAT(run({"detect"}).out,
              AllOf(HasSubstr("Refused: failed their examinations"), HasSubstr("conv2d")));
  EXPECT_THAT(
      std::string(
          nlohmann::json::parse(run({"detect", "--json"}).out).at("failed_examinations").at(0).at("what")),
      HasSubstr("conv2d"));
  EXPECT_THAT(run({"doctor", "--lang", "en"}).out,
              AllOf(HasSubstr("failed its examination"), HasSubstr("conv2d"), Not(HasSubstr("All is well"))));
  // With --trust the device is used, and every summary says so.
  const Outcome trusted = train("none", {"--device", "opencl:0", "--trust"});
  ASSERT_EQ(trusted.exit_code, 0) << trusted.err;
  EXPECT_THAT(trusted.out, HasSubstr("used although it failed its examination (--trust): conv2d"));
  EXPECT_THAT(std::string(summary().at("trust")), HasSubstr("conv2d"));
  EXPECT_THAT(run({"runs", "ls", "."}).out, HasSubstr("opencl:0, on trust"));
  EXPECT_THAT(run({"runs", "ls", ".", "--json"}).out, HasSubstr("although it failed its examination"));
  ASSERT_EQ(run({"runs", "report", "run"}).exit_code, 0);
  EXPECT_THAT(text("run/report.html"), HasSubstr("opencl:0 is used although it failed its examination"));
  // With another version of the driver, the device is examined again.
  const Outcome updated = train("text:another driver");
  EXPECT_EQ(updated.exit_code, 0) << updated.err;
  EXPECT_THAT(updated.err, HasSubstr("examining opencl:0"));
  EXPECT_FALSE(summary().contains("trust"));
  const Outcome known = train("text:another driver");
  EXPECT_EQ(known.exit_code, 0) << known.err;
  EXPECT_THAT(known.err, Not(HasSubstr("examining")));
}

TEST_F(Examination, IsMadeAnewByAnotherVersionOfAthanor) {
  EXPECT_EQ(train("wrong:gemm").exit_code, 1);
  sqlite3* database = open_database(folder_ / "cache/athanor.db");
  const std::string version = trim(run({"--version"}).out).substr(std::strlen("athanor "));
  ASSERT_TRUE(run_sql(
      database,
      fmt::format("UPDATE examinations SET key = replace(CAST(key AS TEXT), '|{}|', '|0.0.1|')", version)));
  close_database(database);
  const Outcome another = train("none");
  EXPECT_EQ(another.exit_code, 0) << another.err;
  EXPECT_THAT(another.err, HasSubstr("examining opencl:0"));
}

// Every command says so, as text and as JSON.
TEST_F(Examination, EveryResultOfATrustedDeviceSaysSo) {
  EXPECT_EQ(train(wrong_convolutions).exit_code, 1);
  ASSERT_EQ(train("none", {"--device", "opencl:0", "--trust"}).exit_code, 0);
  write_file_atomically(folder_ / "text.txt", std::string(2000, 'a'));
  write_file_atomically(folder_ / "four.csv",
                        "a,b,c\n1,2,x\n2,3,y\n3,4,x\n4,5,y\n");  // few batches, so few kernels to compile
  const Outcome wrote = run({"train", "--model", "gpt2-nano", "--data", "text.txt", "--context", "16",
                             "--batch-size", "2", "--max-steps", "1", "--device", "cpu", "--out", "writer"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const std::string image = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/image/grey.png";
  struct Case {
    Words words;
    bool json = true;
  };
  // Standard error is the same with and without --json.
  for (const auto& [words, json] :
       {Case{{"train", "--data", "fashion-mnist", "--find-lr", "lr.svg", "--batch-size", "16", "--model",
              "mlp"}},
        Case{{"eval", "run", "--eval-examples", "32"}}, Case{{"predict", image, "--checkpoint", "run"}},
        Case{{"sample", "writer", "--tokens", "2"}},
        Case{{"fit", "--model", "mlp", "--data", "four.csv", "--batch-size", "1", "--precision", "f32"}},
        Case{{"explain", "--model", "mlp", "--batch-size", "4"}}, Case{{"tune", "--gemm", "8x8x8"}, false}}) {
    Words here = words;
    here.insert(here.end(), {"--device", "opencl:0", "--trust"});
    if (json) here.emplace_back("--json");
    const std::string shown = ::testing::PrintToString(here);
    const Outcome made = run(here);
    ASSERT_EQ(made.exit_code, 0) << shown << made.err;
    EXPECT_THAT(made.err, HasSubstr("opencl:0 is used although it failed its examination (--trust): conv2d"))
        << shown;
    if (!json) continue;
    auto result = nlohmann::json::parse(made.out);
    if (result.is_array()) result = result.at(0);
    EXPECT_THAT(result.value("trust", ""), HasSubstr("failed its examination (--trust): conv2d")) << shown;
  }
}

// Kernels that occur only in the training step, or that many other cases share.
TEST_F(Examination, NamesWhatAWrongKernelComputes) {
  const auto wrong = [&](const char* kernel) {
    set_variable("ATHANOR_FAULT", std::string("wrong:") + kernel);
    return run({"examine-device", "opencl:0"}).out;
  };
  EXPECT_THAT(wrong("gemm_dot"), HasSubstr("a training step: the loss: element 0 of 1 is"));
  EXPECT_THAT(wrong("map"), AllOf(HasSubstr("equal(i32[300], i32[300]): element"), HasSubstr("iota()")));
}

// The examination found no fault, but the driver compiles this loop wrongly.
TEST_F(Examination, LoopsAreCheckedWhenTheyAreCompiled) {
  ASSERT_EQ(train("none").exit_code, 0);
  set_variable("ATHANOR_DISABLE", "");
  const Outcome wrong = train("wrong:map", {"--device", "opencl:0", "--optimizer", "adam"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("computes the loop"), HasSubstr("wrongly"), HasSubstr("element ")));
}

TEST_F(Examination, OneProcessExaminesAndAnotherWaits) {
  set_variable("ATHANOR_FAULT", "wrong:gemm");
  const TempFolder second;
  std::filesystem::create_directory(folder_.path() / "cache");
  std::filesystem::create_directory_symlink(folder_.path() / "cache", second.path() / "cache");
  const std::vector<std::string> words{"explain", "--model", "mlp", "--device", "opencl:0"};
  Program one(folder_.path(), words), other(second.path(), words);
  const std::string said = one.wait().err, also = other.wait().err;
  EXPECT_THAT(said, HasSubstr("failed its examination"));
  EXPECT_THAT(also, HasSubstr("failed its examination"));
  const auto examined = [](const std::string& text) {
    return text.find("examining opencl:0") != std::string::npos;
  };
  EXPECT_NE(examined(said), examined(also)) << said << also;
}

// If the device hangs, a request to stop is obeyed at once, and the device is not marked as wrong.
TEST_F(Examination, IsLeftWhenSomebodyAsksToStop) {
  set_variable("ATHANOR_FAULT", "stall:gemm");
  Program program(folder_.path(), {"train", "--model", "mlp", "--data", "fashion-mnist", "--device",
                                   "opencl:0", "--max-steps", "1", "--out", "run"});
  program.wait_for_lines(folder_.path() / "stderr", 1);
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("examining opencl:0"), HasSubstr("stopped while it examined opencl:0"),
                    HasSubstr("There is no run yet")));
  EXPECT_THAT(run({"cache", "ls"}).out, Not(HasSubstr("failed its examination")));
}

// A step takes minutes, or never ends: the first signal takes effect after the step, the second one at once.
TEST_F(Examination, AStepOfADeviceThatHangsCanBeLeft) {
  ASSERT_EQ(train("none").exit_code, 0);
  set_variable("ATHANOR_FAULT", "stall:gemm");
  Program program(folder_.path(), {"train", "--model", "mlp", "--data", "fashion-mnist", "--device",
                                   "opencl:0", "--batch-size", "16", "--out", "hanging"});
  program.wait_for_lines(folder_.path() / "stdout", 1);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  program.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("saved")));
}

TEST_F(Examination, TakesACrashForAnAnswerAndAutoAvoidsTheDevice) {
  show_whole_lines();
  // The device is called a GPU, because auto does not consider the processor itself. Only one of the
  // processes that examine it has attention: another could find the mark of a kernel that one died of, and
  // answer first.
  const Outcome end = train("say:0x1000=4;kill:attention", {"--device", "auto"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(summary().at("device"), "cpu");
  EXPECT_THAT(end.out, HasSubstr("opencl:0 is left out"));
  EXPECT_THAT(end.out, HasSubstr("was ended by SIGKILL"));
  EXPECT_FALSE(summary().contains("trust"));
}

}  // namespace
}  // namespace athanor::testing
