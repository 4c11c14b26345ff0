// `athanor detect` as a program: on this machine, on recorded ones, and with an OpenCL library that
// misreports, dies or hangs (tests/support/opencl_faults.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "tests/cli/program_test.h"
#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class DetectProgram : public ProgramTest {
 protected:
  std::filesystem::path machine(const std::string& name) {
    MachineFixture(std::filesystem::path(ATHANOR_SOURCE_DIR "/tests/machines") / (name + ".machine"))
        .unpack(folder_ / name);
    return folder_ / name;
  }
  Outcome run(std::vector<std::string> words) {
    words.insert(words.begin(), "detect");
    return run_program(folder_.path(), words);
  }
};

TEST_F(DetectProgram, AnswersHereInTwoSeconds) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome end = run({"--json"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // tests share the machine
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const json found = json::parse(end.out);
  EXPECT_EQ(found["schema"], 1);
  EXPECT_EQ(found["devices"].back()["kind"], "cpu");
  EXPECT_EQ(found["devices"].back()["backends"][0]["device"], "cpu");
}

TEST_F(DetectProgram, TellsOfARecordedMachine) {
#ifndef ATHANOR_TEST_OPENCL
  GTEST_SKIP() << "this build has no OpenCL";
#endif
  const Outcome end = run({"--root", machine("rx6800xt")});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("AMD Radeon RX 6800 XT"));
  EXPECT_THAT(end.out, HasSubstr("72 (KFD, data sheet)"));
  EXPECT_THAT(end.out, HasSubstr("36 work-group processors (HIP, OpenCL)"));
  EXPECT_THAT(end.out, HasSubstr("launches in WGP mode"));
  EXPECT_THAT(end.out, Not(HasSubstr("\x1b")));  // no colours in a file
}

TEST_F(DetectProgram, FitsTheTerminal) {
  for (const char* name : {"rx6800xt", "wsl-rtx4090", "h100x8", "phoenix-7900xtx"}) {
    const std::string root = machine(name);
    set_variable("COLUMNS", "80");
    for (const std::string& line : split(run({"--root", root}).out, '\n'))
      EXPECT_LE(text_columns(line), 80) << name << ": " << line;
  }
}

// For the same machine, doctor says that its GPU works, or that it does not know.
TEST_F(DetectProgram, DoesNotCallUnusableWhatWasNotRecorded) {
  for (const char* name : {"doctor/only-sys-amd", "doctor/only-sys-kfd"}) {
    const Outcome end = run({"--root", machine(name)});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_THAT(end.out, AllOf(HasSubstr("not known"), HasSubstr("perhaps "), Not(HasSubstr("nothing here"))))
        << name;
  }
}

TEST_F(DetectProgram, ShowsAndDrawsTheTopology) {
  const Outcome end = run({"--root", machine("mi300x8"), "--topology", "--svg", "machine.svg"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("Memory node 1  socket 1"));
  EXPECT_THAT(end.out,
              HasSubstr("Devices 0, 1, 2, 3, 4, 5, 6, 7: XGMI, each with each other, 64 GB/s a pair"));
  const std::string svg = read_text_file(folder_ / "machine.svg");
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("[7] AMD Instinct MI300X"));
  const Outcome as_json = run({"--root", (folder_ / "mi300x8").string(), "--topology", "--json"});
  const json topology = json::parse(as_json.out)["topology"];
  EXPECT_EQ(topology["nodes"].size(), 2U);
  EXPECT_EQ(topology["nodes"][1]["cpus"], "4-7");
  EXPECT_EQ(topology["links"].size(), 28U);
  EXPECT_EQ(topology["places"][7]["node"], 1);
}

TEST_F(DetectProgram, SaysHowFarAProbeIs) {
  const Outcome end = run({"--probe", "--device", "cpu", "--json"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.err, HasSubstr("measuring: cpu, memory bandwidth\n"));
  EXPECT_THAT(end.err, HasSubstr("measuring: cpu, product of matrices in f32\n"));
  EXPECT_THAT(end.err, Not(HasSubstr("\x1b")));  // no colours, because it is not a terminal
  const auto probed = json::parse(end.out).at("probe").at("devices");
  ASSERT_EQ(probed.size(), 1U);
  EXPECT_GT(probed[0].at("measurements").at("bandwidth_gb_s").at("value"), 0);
}

// The kernel that was being tried is not at fault.
TEST_F(DetectProgram, CtrlCBansNoKernel) {
  Program probe(folder_.path(), {"detect", "--probe", "--device", "opencl:0"});
  const auto said = [&] {
    return std::filesystem::exists(folder_ / "stderr") ? read_text_file(folder_ / "stderr") : std::string();
  };
  while (probe.running() && said().find("product of matrices") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!probe.running()) GTEST_SKIP() << "there is no OpenCL device here, or it was measured at once";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  probe.send(SIGINT);
  probe.wait();
  EXPECT_THAT(run_program(folder_.path(), {"cache", "ls"}).out, Not(HasSubstr("never to be tried")));
}

TEST_F(DetectProgram, RefusesWhatMakesNoSense) {
  EXPECT_EQ(run({"--root", "nowhere"}).exit_code, 2);
  EXPECT_EQ(run({"--root", machine("rx6800xt"), "--probe"}).exit_code, 2);
  EXPECT_EQ(run({"--memtest", "-1"}).exit_code, 2);
  const Outcome end = run({"--memtest", "0.1", "--device", "opencl:77"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("no device 'opencl:77'"));
  const Outcome probed = run({"--probe", "--device", "nope"});
  EXPECT_EQ(probed.exit_code, 2);
  EXPECT_THAT(probed.err, AllOf(HasSubstr("no device 'nope'"), HasSubstr("cpu")));
  EXPECT_EQ(run({"--device", "cpu"}).exit_code, 2);  // detect does not limit its list to one device
}

#ifdef ATHANOR_OPENCL_FAULTS
class DetectWithBadOpenCl : public DetectProgram {
 protected:
  void SetUp() override {
    setenv("ATHANOR_OPENCL_LIBRARY", ATHANOR_OPENCL_FAULTS, 1);
    if (run_with("none")["runtimes"].dump().find("\"opencl\",\"answered\":true") == std::string::npos &&
        !answered_)
      GTEST_SKIP() << "there is no OpenCL device here";
  }
  void TearDown() override {
    unsetenv("ATHANOR_OPENCL_LIBRARY");
    unsetenv("ATHANOR_FAULT");
  }
  json run_with(const std::string& fault) {
    setenv("ATHANOR_FAULT", fault.c_str(), 1);
    const Outcome end = run({"--json"});
    EXPECT_EQ(end.exit_code, 0) << fault << end.err;
    json found = json::parse(end.out);
    answered_ = false;
    for (const json& runtime : found["runtimes"])
      if (runtime["name"] == "opencl") {
        answered_ = runtime["answered"];
        problem_ = runtime.value("problem", "");
      }
    return found;
  }
  bool answered_ = false;
  std::string problem_;
};

TEST_F(DetectWithBadOpenCl, AnswersWhenTheLibraryDies) {
  const json found = run_with("abort");
  EXPECT_FALSE(answered_);
  EXPECT_EQ(problem_, "the program that asked it was ended by SIGABRT: POCL: no /sys here");
  EXPECT_FALSE(found["devices"].empty());
}

TEST_F(DetectWithBadOpenCl, AnswersWhenTheLibraryHangs) {
  const json found = run_with("hang");
  EXPECT_THAT(problem_, HasSubstr("gave no answer within"));
  EXPECT_FALSE(found["devices"].empty());
}

// Numbers that no device has, and texts without an end.
TEST_F(DetectWithBadOpenCl, AnswersForMisreportedProperties) {
  for (const char* fault :
       {"units:0", "units:4294967295", "say:0x101f=0", "say:0x101f=0xffffffffffffffff", "say:0x1000=0",
        "say:0x1000=0xffffffffffffffff", "say:0x100c=0xffffffff", "text:", "text:huge",
        "text:cl_khr_pci_bus_info cl_amd_device_attribute_query cl_nv_device_attribute_query"}) {
    const json found = run_with(fault);
    EXPECT_TRUE(answered_) << fault << ": " << problem_;
    EXPECT_EQ(found["devices"].back()["kind"], "cpu") << fault;
  }
}

// Whether a measurement without a fault was given up for silence, as on a busy machine.
bool was_too_slow(const json& device, const std::string& silent) {
  const json& all = device.at("measurements");
  if (device.value("problem", "") == silent) return true;
  for (const char* property : {"f32_tflops", "bandwidth_gb_s", "f32_product_tflops"})
    if (all.contains(property) && all.at(property).value("missing", "") == silent) return true;
  return false;
}

// A hang or crash loses only its own measurement; the next ones are made. The patience is short at first, to
// keep the test fast, and grows if the machine is too busy.
TEST_F(DetectWithBadOpenCl, MeasuresTheRestWhenAKernelHangsOrCrashes) {
  setenv("ATHANOR_FAULT", "stall:probe_rate_i8;kill:gemm", 1);
  json device;
  std::string silent;
  for (int patience = 2; patience <= 32; patience *= 2) {
    const std::string seconds = std::to_string(patience);
    const Outcome end = run({"--probe", "--json", "--device", "opencl:0", "--patience", seconds});
    ASSERT_EQ(end.exit_code, 0) << end.err;
    device = json::parse(end.out).at("probe").at("devices").at(0);
    silent = "the program that used it said nothing for " + seconds + " s";
    if (!was_too_slow(device, silent)) break;
  }
  const json& all = device.at("measurements");
  EXPECT_GT(all.at("f32_tflops").at("value"), 0);
  EXPECT_EQ(all.at("i8_tops").at("missing"), silent);
  EXPECT_GT(all.at("bandwidth_gb_s").at("value"), 0);
  EXPECT_THAT(all.at("f32_product_tflops").at("missing").get<std::string>(),
              HasSubstr("was ended by SIGKILL"));
  EXPECT_FALSE(all.contains("bf16_product_tflops"));  // the device is given up after three failures
  EXPECT_THAT(device.at("problem").get<std::string>(), HasSubstr("were given up"));
}

TEST_F(DetectWithBadOpenCl, TestsOtherMemoryWhenADeviceCrashes) {
  setenv("ATHANOR_FAULT", "kill:memory_check", 1);
  const Outcome end = run({"--memtest", "0.1", "--device", "opencl:0"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.out, HasSubstr("opencl:0   could not be tested: the program that used it was ended by"));
  EXPECT_EQ(run({"--memtest", "0.1"}).exit_code, 0);  // the host's memory, by the CPU backend
}

TEST_F(DetectWithBadOpenCl, KeepsWhatOthersSay) {
  const json units = run_with("units:99")["devices"].back()["properties"]["compute_units"];
  EXPECT_EQ(units["source"], "proc");
  EXPECT_EQ(units["others"][0]["value"], 99);
  EXPECT_THAT(units["note"].get<std::string>(),
              HasSubstr("/proc and OpenCL do not agree; what /proc says counts"));
}
#endif

}  // namespace
}  // namespace athanor::testing
