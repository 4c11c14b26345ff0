// HIP runtimes of the releases 5, 6 and 7, without their compiler (tests/support/fake_hip.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program_test.h"

namespace athanor::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FakeHip : public ProgramTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    set_variable("LD_LIBRARY_PATH", ATHANOR_FAKE_HIP "/" + std::to_string(GetParam()));
    name_ = "Card of HIP " + std::to_string(GetParam());
    const json found = json::parse(run({"detect", "--json"}).out);
    for (const json& device : found["devices"])
      for (const json& backend : device["backends"])
        if (device["name"] == name_ && backend["name"] == "hip") {
          device_ = device;
          hip_ = backend;
        }
    for (const json& runtime : found["runtimes"])
      if (runtime["name"] == "hip") runtime_ = runtime;
    if (GetParam() < 7 && device_.is_null() && runtime_.dump().find("HIP 7") != std::string::npos)
      GTEST_SKIP() << "a newer HIP is installed, which comes first";
  }

  std::string name_;
  json device_, hip_, runtime_;
};

TEST_P(FakeHip, IsLoadedAndTellsItsVersionAndArchitecture) {
  ASSERT_TRUE(device_.is_object()) << runtime_;
  EXPECT_EQ(runtime_["answered"], true);
  EXPECT_THAT(runtime_.dump(), HasSubstr("HIP " + std::to_string(GetParam()) + "."));
  json& properties = device_["properties"];
  EXPECT_EQ(properties["architecture"]["value"], "gfx1100");
  EXPECT_EQ(properties["wave_width"]["value"], 32);
}

TEST_P(FakeHip, WithoutItsCompilerIsRefusedWithThePackage) {
  if (hip_.is_object() && !hip_.contains("no_compiler")) GTEST_SKIP() << "there is a hipRTC for it";
  EXPECT_EQ(hip_["usable"], false);
  EXPECT_THAT(hip_["reason"].get<std::string>(),
              AllOf(HasSubstr("no hipRTC library"), HasSubstr("Install the package")));
  // Debian's package has only the hipRTC of HIP 5.
  const bool advises_debians = hip_["reason"].get<std::string>().find("libamdhip64-5") != std::string::npos;
  EXPECT_TRUE(GetParam() == 5 || !advises_debians) << hip_["reason"];
  const Outcome outcome = run({"train", "--model", "mlp", "--data", "fashion-mnist", "--batch-size", "4",
                               "--max-steps", "1", "--out", "run", "--device", "hip:0"});
  EXPECT_EQ(outcome.exit_code, 1) << "does fake_hip.cpp have every function of hip/table.cpp?";
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot use hip:0 (" + name_ + ")"),
                                 HasSubstr("no hipRTC library"), HasSubstr("Install the package")));
}

INSTANTIATE_TEST_SUITE_P(Releases, FakeHip, ::testing::Values(5, 6, 7),
                         [](const auto& param) { return "Hip" + std::to_string(param.param); });

}  // namespace
}  // namespace athanor::testing
