// A distribution's real HIP runtime on a machine without AMD GPUs: that it finds no device is not an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/kernels/compile_apart.h"
#include "tests/cli/program_test.h"

namespace athanor::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HipRuntime : public ProgramTest {
 protected:
  void SetUp() override {
    const Outcome outcome = run({"detect", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    found_ = json::parse(outcome.out);
    json hip;
    for (const json& runtime : found_["runtimes"])
      if (runtime["name"] == "hip") hip = runtime;
    if (hip["answered"] == true) GTEST_SKIP() << "the HIP runtime has devices";
    problem_ = hip["problem"];
    if (problem_.starts_with("no HIP runtime library"))
      GTEST_SKIP() << "there is no HIP runtime (Debian: libamdhip64-5)";
  }

  json found_;
  std::string problem_;
};

TEST_F(HipRuntime, SaysThatItHasNoDevice) {
  EXPECT_THAT(problem_, StartsWith("the HIP runtime finds no device: hipErrorNoDevice"));
  for (const json& device : found_["devices"])
    for (const json& use : device["backends"])
      EXPECT_FALSE(use["name"] == "hip" && use["usable"] == true) << device["name"];
}

TEST_F(HipRuntime, DoesNotTroubleDoctor) {
  const Outcome outcome = run({"doctor", "--lang", "en"});
  EXPECT_THAT(outcome.exit_code, AnyOf(0, 1));
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("crashed")), Not(HasSubstr("killed"))));
}

TEST_F(HipRuntime, IsRefusedInOneSentence) {
  const Outcome outcome = run({"explain", "--model", "mlp", "--device", "hip:0"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, StartsWith("athanor: error: there is no device 'hip:0'"));
  EXPECT_EQ(run({"explain", "--model", "mlp", "--device", "cpu", "--deterministic"}).err, "");
}

// hipRTC compiles without a device.
TEST_F(HipRuntime, CompilesInAProcessOfTheProgram) {
  const CompileApartScope scope;
  set_compiler_program({ATHANOR_BINARY_DIR "/athanor", "compile-kernels"});
  const auto compile = [](const std::string& source) {
    return compile_apart("hip", "gfx1030", source, "twice");
  };
  const auto binary = compile("extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }");
  EXPECT_FALSE(compile("no program").has_value());
  set_compiler_program({});
  ASSERT_TRUE(binary.has_value());
  EXPECT_THAT(*binary, AllOf(HasSubstr("ELF"), HasSubstr("gfx1030"), HasSubstr("twice")));
}

}  // namespace
}  // namespace athanor::testing
