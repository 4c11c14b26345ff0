// Training on OpenCL through the program, and what it says when the device fails: with an OpenCL library that
// fails on purpose (tests/support/opencl_faults.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "athanor/device/device.h"
#include "tests/cli/program.h"
#include "tests/support/matches.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

bool has_opencl() {
  for (const DeviceInfo& info : list_devices())
    if (to_string(info.device) == "opencl:0") return true;
  return false;
}

class OpenClProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_opencl()) GTEST_SKIP() << "there is no OpenCL device here";
    setenv("ATHANOR_OPENCL_LIBRARY", ATHANOR_OPENCL_FAULTS, 1);
  }
  void TearDown() override {
    unsetenv("ATHANOR_OPENCL_LIBRARY");
    unsetenv("ATHANOR_FAULT");
    unsetenv("ATHANOR_DISABLE");
  }

  Outcome train(const std::string& fault, std::vector<std::string> more = {}, const char* batch = "16") {
    setenv("ATHANOR_FAULT", fault.c_str(), 1);
    setenv("ATHANOR_DISABLE", "tune", 1);
    std::vector<std::string> words{
        "train",        "--model", "mlp",         "--data", "fashion-mnist", "--device", "opencl:0",
        "--batch-size", batch,     "--max-steps", "3",      "--seed",        "1",        "--out",
        "run",          "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return Program(folder_.path(), words).wait();
  }
  nlohmann::json summary() const {
    return nlohmann::json::parse(read_text_file(folder_.path() / "run/summary.json"));
  }

  TempFolder folder_;
  std::vector<int64_t> peaks_;  // peak memory of each run
};

TEST_F(OpenClProgram, TakesANumberForNoPartOfAName) {
  setenv("ATHANOR_FAULT", "text:Radeon 77", 1);  // the device's name
  const Outcome missing =
      run_program(folder_.path(), {"explain", "--model", "mlp", "--device", "opencl:77", "--deterministic"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("there is no device 'opencl:77'"));
}

TEST_F(OpenClProgram, TrainsAndCompilesNothingTheSecondTime) {
  Outcome first = train("none");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(summary()["device"], "opencl:0");
  EXPECT_EQ(summary()["kernels_off_device"], 0);
  EXPECT_GT(summary()["compilations"], 0);
  EXPECT_TRUE(summary()["examination_seconds"].is_number());
  const double loss = summary()["test_loss"];
  std::filesystem::remove_all(folder_.path() / "run");
  Outcome second = train("none", {"--trace", "trace.json"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(summary()["compilations"], 0);
  EXPECT_EQ(summary()["examination_seconds"], 0);
  EXPECT_EQ(summary()["test_loss"], loss);
  const auto trace = nlohmann::json::parse(read_text_file(folder_.path() / "trace.json"));
  std::set<std::string> lanes;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "M") lanes.insert(event["args"]["name"]);
  EXPECT_TRUE(lanes.contains("host") && lanes.contains("opencl:0 kernels") &&
              lanes.contains("opencl:0 copies in"));
}

TEST_F(OpenClProgram, SaysHowMuchMemoryIsMissingAndWhatFits) {
  const Outcome end = train("alloc:80000000", {}, "8192");
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("cannot allocate"));
  EXPECT_THAT(end.err, HasSubstr("is planned to need"));
  EXPECT_THAT(end.err, HasSubstr("about the largest that fits"));
  // The peak is what the plan for that batch says, except for rounding in the output and kernels' scratch.
  const Outcome plan = run_program(folder_.path(), {"explain", "--model", "mlp", "--device", "opencl:0",
                                                    "--deterministic", "--batch-size", "8192", "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const double next_batch = 8192 * (28 * 28 * 4 + 8);  // uploaded while a step runs
  const double planned = nlohmann::json::parse(plan.out)["planned_memory_bytes"].get<double>() + next_batch;
  const Match said = first_match(end.err, "is planned to need ([0-9.]+) MiB");
  ASSERT_FALSE(said.empty()) << end.err;
  EXPECT_NEAR(std::stod(said[1]) * 1048576, planned, 0.03 * planned);
}

TEST_F(OpenClProgram, DoesNotCallALostDeviceFull) {
  const Outcome end = train("buffer:-34", {}, "512");
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("cannot allocate"));
  EXPECT_THAT(end.err, HasSubstr("CL_INVALID_CONTEXT"));
  EXPECT_THAT(end.err, Not(HasSubstr("maller batch")));
}

TEST_F(OpenClProgram, SaysWhatDoesNotCompile) {
  const Outcome end = train("build");
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("cannot compile the kernel"));
  EXPECT_THAT(end.err, ::testing::ContainsRegex("a kernel for .* in .*: .*\\(at .*\\.cpp:[0-9]+\\)"));
}

// Nothing compiles there, and nothing is known about the device.
TEST_F(OpenClProgram, FitPlansWithoutCompilingAndExamining) {
  setenv("ATHANOR_FAULT", "build", 1);
  setenv("ATHANOR_TRUST", "0", 1);
  std::vector<std::string> words{"fit",      "--model", "resnet18", "--input",        "3,16,16", "--device",
                                 "opencl:0", "--ema",   "0.9",      "--memory-limit", "256MiB"};
  const Outcome table = run_program(folder_.path(), words);
  words.emplace_back("--json");
  const Outcome json = run_program(folder_.path(), words);
  words.back() = "--check";
  const Outcome checked = run_program(folder_.path(), words);
  setenv("ATHANOR_TRUST", "1", 1);
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("How long steps take is not known"));
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto found = nlohmann::json::parse(json.out);
  EXPECT_GT(found["cases"].size(), 3U);
  for (const auto& one : found["cases"]) EXPECT_TRUE(one["predicted_seconds"].is_null());
  EXPECT_NE(checked.exit_code, 0) << "runs steps";
}

// The CPU as a device with memory of its own: CL_DEVICE_HOST_UNIFIED_MEMORY is false.
TEST_F(OpenClProgram, OffloadedOptimizerStateTrainsToTheSameLosses) {
  const auto metrics = [&](const std::string& fault, const std::vector<std::string>& more) {
    std::vector<std::string> words{"--optimizer", "adamw"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome end = train(fault, words);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    std::string text = read_text_file(folder_.path() / "run/metrics.jsonl");
    peaks_.push_back(summary()["peak_memory_bytes"]);
    std::filesystem::remove_all(folder_.path() / "run");
    return text;
  };
  const std::string separate = "say:0x1035=0";
  const std::string kept = metrics(separate, {});
  EXPECT_EQ(std::ranges::count(kept, '\n'), 3);
  EXPECT_EQ(metrics(separate, {"--offload", "optimizer"}), kept);
  EXPECT_LT(peaks_[1], peaks_[0]);
  const auto copies = [&](const char* fault) {
    setenv("ATHANOR_FAULT", fault, 1);
    const Outcome plan =
        run_program(folder_.path(), {"explain", "--model", "mlp", "--device", "opencl:0", "--deterministic",
                                     "--optimizer", "adamw", "--offload", "optimizer", "--json"});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    const auto read = nlohmann::json::parse(plan.out);
    return std::ranges::count_if(read["steps"], [](const auto& step) { return step["kind"] == "copy"; });
  };
  EXPECT_EQ(copies(separate.c_str()), 4 * 6);  // two tensors of each parameter, to the device and back
  EXPECT_EQ(copies("say:0x1035=1"), 0);
}

TEST_F(OpenClProgram, LosesNothingWithTheDevice) {
  ASSERT_EQ(train("none").exit_code, 0);
  const std::string whole = read_text_file(folder_.path() / "run/metrics.jsonl");
  std::filesystem::remove_all(folder_.path() / "run");
  const Outcome end = train("lost:60", {"--checkpoint-every", "1"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("CL_OUT_OF_RESOURCES"));
  EXPECT_THAT(end.err, HasSubstr("goes on with 'athanor train --resume --out run'"));
  setenv("ATHANOR_FAULT", "none", 1);
  Outcome resumed = Program(folder_.path(), {"train", "--resume", "--out", "run", "--quiet"}).wait();
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_text_file(folder_.path() / "run/metrics.jsonl"), whole);
}

TEST_F(OpenClProgram, TakesAnyNumberOfComputeUnits) {
  for (const char* fault : {"units:0", "units:4000000000"}) {
    const Outcome end = train(fault);
    EXPECT_EQ(end.exit_code, 0) << fault << ": " << end.err;
    std::filesystem::remove_all(folder_.path() / "run");
  }
}

TEST_F(OpenClProgram, TunesAConvolutionWithItsGradients) {
  const Outcome end = run_program(folder_.path(), {"tune", "--conv", "1,2,5,5,3,3", "--device", "cpu"});
#ifndef ATHANOR_TEST_ONEDNN
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("computes this op from primitives"));
  return;
#endif
  EXPECT_EQ(end.exit_code, 0) << end.err;
  for (const char* op : {"conv2d f32[1, 2, 5, 5]", "conv2d_input_grad f32[1, 3, 5, 5]",
                         "conv2d_weight_grad f32[1, 2, 5, 5]", "3 of 3 problems"})
    EXPECT_THAT(end.out, HasSubstr(op));
}

TEST_F(OpenClProgram, NeverTriesAgainWhatKilledIt) {
  setenv("ATHANOR_FAULT", "kill:gemm_plain", 1);
  const std::vector<std::string> words{"tune", "--gemm", "1x64x64", "--device", "opencl:0"};
  EXPECT_EQ(run_program(folder_.path(), words).exit_code, 128 + SIGKILL);
  const Outcome again = run_program(folder_.path(), words);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("the program ended while it was tried"));
}

TEST_F(OpenClProgram, CtrlCWhileTuningMarksNothing) {
  setenv("ATHANOR_FAULT", "none", 1);
  Program tune(folder_.path(), {"tune", "--gemm", "301x299x307", "--device", "opencl:0"});
  tune.wait_for_lines(folder_.path() / "stdout", 1);
  tune.send(SIGINT);
  EXPECT_EQ(tune.wait().exit_code, 128 + SIGINT);
  const Outcome list = run_program(folder_.path(), {"cache", "ls"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr(" 0 kernels marked as unusable")) << list.out;
}

// It hangs in a process of its own, which ends with the run.
TEST_F(OpenClProgram, EndsAlthoughADriversCompilerHangs) {
  if (getpriority(PRIO_PROCESS, 0) == 19) GTEST_SKIP() << "no thread can yield more than this one";
  const auto notes = folder_.path() / "notes";
  setenv("ATHANOR_FAULT", "behind", 1);
  setenv("ATHANOR_FAULT_NOTES", notes.c_str(), 1);
  Program run(folder_.path(),
              {"train",    "--model",      "mlp",  "--data",      "fashion-mnist", "--device",
               "opencl:0", "--batch-size", "16",   "--max-steps", "2000",          "--eval-examples",
               "16",       "--seed",       "1",    "--out",       "run",           "--quiet",
               "--tune",   "quick",        "--lr", "0.01"});
  const auto state = [&] {
    const auto file = folder_.path() / "run/state.json";
    return std::filesystem::exists(file) ? nlohmann::json::parse(read_text_file(file))["state"] : "";
  };
  while (run.running() && state() != "finished") std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto saved = std::chrono::steady_clock::now();
  const Outcome end = run.wait();
  unsetenv("ATHANOR_FAULT_NOTES");
  EXPECT_LT(std::chrono::steady_clock::now() - saved, std::chrono::seconds(20))
      << "it does not wait for a minute";
  EXPECT_EQ(end.exit_code, 0) << end.err;
  ASSERT_TRUE(std::filesystem::exists(notes)) << "no kernel was compiled beside the run";
  EXPECT_THAT(read_text_file(notes), HasSubstr("the compiler hangs"));
  EXPECT_EQ(summary()["steps"], 2000);
}

TEST_F(OpenClProgram, AutoTakesTheFastestDeviceAndNoProcessorThroughOpenCl) {
  setenv("ATHANOR_FAULT", "none", 1);
  const Outcome end =
      run_program(folder_.path(), {"train", "--model", "mlp", "--data", "fashion-mnist", "--device", "auto",
                                   "--batch-size", "16", "--max-steps", "2", "--out", "run"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  std::set<std::string> devices{"cpu"};
  bool same = false;
  for (const DeviceInfo& info : list_devices())
    if (info.kind != "cpu")
      devices.insert(to_string(info.device));
    else
      same |= info.device != Device{};
  EXPECT_TRUE(devices.contains(summary()["device"])) << summary()["device"];
  EXPECT_THAT(end.out, HasSubstr(devices.size() > 1 ? "the fastest here, by a product of matrices"
                                                    : "the only device here"))
      << end.out;
  if (same) {
    EXPECT_THAT(end.out, HasSubstr("is the same processor"));
  }
  // The choice is remembered: explain uses the same device.
  const Outcome plan = run_program(folder_.path(), {"explain", "--model", "mlp", "--device", "auto"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr(fmt::format("kernels on {}", std::string(summary()["device"]))));
}

}  // namespace
}  // namespace athanor::testing
