// Plans: one consistent chain for many machines, and outputs that can be run.
#include "athanor/doctor/plan.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::UnpackedMachine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

InstallPlan plan_on(const std::string& machine_name, const std::string& goal) {
  const UnpackedMachine machine("doctor/" + machine_name);
  return make_plan(Facts(*machine), goal);
}

TEST(PytorchPlans, TakeTheNewestWheelThatRuns) {
  struct Case {
    const char *machine, *index;
  };
  for (const Case& one :
       {Case{"healthy-rx6800xt", "https://download.pytorch.org/whl/rocm7.2"},
        Case{"healthy-mi300x8", "https://download.pytorch.org/whl/rocm7.2"},
        Case{"healthy-rtx4090", "https://download.pytorch.org/whl/cu128"},  // driver 570: no CUDA 13
        Case{"healthy-h100x8", "https://download.pytorch.org/whl/cu130"},   // driver 580
        Case{"row19-no-kernel-image", "https://download.pytorch.org/whl/cu128"},
        Case{"healthy-no-gpu", "https://download.pytorch.org/whl/cpu"},
        Case{"healthy-integrated-and-discrete", "https://download.pytorch.org/whl/rocm7.2"},
        Case{"row13-apu-memory", "https://download.pytorch.org/whl/rocm7.2"}}) {
    const InstallPlan plan = plan_on(one.machine, "pytorch");
    EXPECT_EQ(plan.broken(), nullptr) << one.machine;
    EXPECT_EQ(plan.index, one.index) << one.machine;
    EXPECT_THAT(plan.packages, ElementsAre("torch==2.11.*")) << one.machine;
    EXPECT_EQ(plan.python, "3.12") << one.machine;  // which is there
    for (const Link& link : plan.links)
      EXPECT_FALSE(link.reason.en.empty() || link.reason.zh.empty()) << link.part;
  }
}

TEST(PytorchPlans, PretendWhereOnlyThatHelps) {
  const InstallPlan plan = plan_on("row01-invalid-device-function", "pytorch");
  ASSERT_EQ(plan.variables.size(), 1U);
  EXPECT_EQ(plan.variables.front().second, "10.3.0");
  EXPECT_THAT(plan_as(plan, "script"), HasSubstr("export HSA_OVERRIDE_GFX_VERSION=10.3.0"));
  EXPECT_THAT(plan_as(plan, "conda"), HasSubstr("HSA_OVERRIDE_GFX_VERSION: \"10.3.0\""));
}

TEST(PytorchPlans, NameTheLinkThatMakesThemImpossible) {
  const InstallPlan chip = plan_on("row14-half-precision", "pytorch");  // gfx1010
  ASSERT_NE(chip.broken(), nullptr);
  EXPECT_EQ(chip.broken()->part, "PyTorch");
  EXPECT_THAT(chip.broken()->reason.en, HasSubstr("gfx1010"));
  EXPECT_THROW(plan_as(chip, "script"), Error);
  const InstallPlan driver =
      plan_on("row20-driver-too-old", "pytorch");  // 470: CUDA 11 alone, and 2.7 was the last for it
  ASSERT_EQ(driver.broken(), nullptr);
  EXPECT_THAT(driver.packages, ElementsAre("torch==2.7.*"));
  EXPECT_THAT(driver.index, HasSubstr("cu118"));
}

TEST(TensorflowPlans, FitTheMachine) {
  EXPECT_THAT(plan_on("healthy-rtx4090", "tensorflow").packages, ElementsAre("tensorflow[and-cuda]==2.21.*"));
  EXPECT_THAT(plan_on("healthy-no-gpu", "tensorflow").packages, ElementsAre("tensorflow==2.21.*"));
  const InstallPlan amd = plan_on("healthy-rx7900xtx", "tensorflow");
  EXPECT_THAT(amd.packages, ElementsAre("tensorflow-rocm==2.20.*"));
  EXPECT_THAT(amd.find_links, HasSubstr("rocm-rel-7.2"));
  const InstallPlan old = plan_on("row20-driver-too-old", "tensorflow");
  ASSERT_EQ(old.broken(), nullptr);  // 2.14 is of CUDA 11.8
  EXPECT_THAT(old.packages, ElementsAre("tensorflow[and-cuda]==2.14.*"));
  ASSERT_NE(plan_on("row14-half-precision", "tensorflow").broken(), nullptr);
}

TEST(JaxPlans, FitTheMachine) {
  EXPECT_THAT(plan_on("healthy-rtx4090", "jax").packages, ElementsAre("jax[cuda12]"));
  EXPECT_THAT(plan_on("healthy-h100x8", "jax").packages, ElementsAre("jax[cuda13]"));
  EXPECT_THAT(plan_on("healthy-no-gpu", "jax").packages, ElementsAre("jax"));
  EXPECT_THAT(plan_on("healthy-rx7900xtx", "jax").packages, ElementsAre("jax[rocm7-local]==0.8.2"));
  const InstallPlan old = plan_on("row20-driver-too-old", "jax");
  ASSERT_NE(old.broken(), nullptr);
  EXPECT_EQ(old.broken()->part, "driver");
}

TEST(AthanorPlans, WorkForEveryVendor) {
  for (const char* machine :
       {"healthy-rtx4090", "healthy-rx6800xt", "healthy-arc", "healthy-no-gpu", "row14-half-precision"})
    EXPECT_EQ(plan_on(machine, "athanor").broken(), nullptr) << machine;
  EXPECT_THAT(plan_as(plan_on("healthy-arc", "athanor"), "script"), HasSubstr("intel-opencl-icd"));
  EXPECT_THROW(plan_as(plan_on("healthy-arc", "athanor"), "conda"), Error);
}

TEST(Plans, ThatAreUnknownAreUsageErrors) {
  const UnpackedMachine machine("doctor/healthy-no-gpu");
  try {
    make_plan(Facts(*machine), "pytroch");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.hint(), HasSubstr("pytorch"));
  }
  EXPECT_THROW(plan_as(plan_on("healthy-no-gpu", "jax"), "tarball"), Error);
}

// A shell reads every script to its end; shellcheck too, where it is.
TEST(Plans, AreValidShell) {
  const TemporaryFolder folder;
  const bool shellcheck = std::system("command -v shellcheck >/dev/null 2>&1") == 0;
  for (const char* machine : {"healthy-rtx4090", "healthy-rx6800xt", "healthy-rx7900xtx", "healthy-no-gpu",
                              "row01-invalid-device-function"})
    for (const char* goal : {"pytorch", "tensorflow", "jax", "athanor"}) {
      const InstallPlan plan = plan_on(machine, goal);
      if (plan.broken() != nullptr) continue;
      const auto file = folder.path() / (std::string(machine) + "-" + goal + ".sh");
      write_file_atomically(file, plan_as(plan, "script"));
      EXPECT_EQ(std::system(("bash -n " + file.string()).c_str()), 0) << file;
      if (shellcheck) {
        EXPECT_EQ(std::system(("shellcheck " + file.string()).c_str()), 0) << file;
      }
    }
}

TEST(Plans, HaveDockerfilesAndEnvironments) {
  const InstallPlan plan = plan_on("healthy-rtx4090", "pytorch");
  const std::string docker = plan_as(plan, "dockerfile");
  EXPECT_THAT(docker, HasSubstr("\nFROM python:3.12-slim\n"));
  EXPECT_THAT(docker, HasSubstr("--gpus all"));
  EXPECT_THAT(docker, HasSubstr("'torch==2.11.*' --index-url https://download.pytorch.org/whl/cu128"));
  // Every line is a comment or an instruction.
  for (const std::string& line : split(docker, '\n'))
    EXPECT_TRUE(line.empty() || line[0] == '#' || line.starts_with("FROM ") || line.starts_with("RUN ") ||
                line.starts_with("ENV ") || line.starts_with("CMD [\""))
        << line;
  const std::string conda = plan_as(plan, "conda");
  EXPECT_THAT(conda, HasSubstr("  - python=3.12\n"));
  EXPECT_THAT(conda, HasSubstr("      - --index-url https://download.pytorch.org/whl/cu128\n"));
  EXPECT_THAT(plan_as(plan_on("healthy-rx6800xt", "pytorch"), "dockerfile"), HasSubstr("--device=/dev/kfd"));
}

TEST(Plans, AreData) {
  const auto json = plan_json(plan_on("row14-half-precision", "pytorch"), Language::zh);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("possible"), false);
  EXPECT_THAT(plan_text(plan_on("healthy-rtx4090", "pytorch"), Language::en), HasSubstr("CUDA 13"));
  EXPECT_THAT(plan_text(plan_on("row14-half-precision", "pytorch"), Language::en), HasSubstr("Impossible"));
}

}  // namespace
}  // namespace athanor::doctor
