// A card that CUDA lists but for which nothing here compiles (tests/support/fake_cuda.cpp), and cards that a
// variable hides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program_test.h"

namespace athanor::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FakeCuda : public ProgramTest {
 protected:
  void SetUp() override {
    set_variable("LD_LIBRARY_PATH", ATHANOR_FAKE_CUDA);
    set_variable("ATHANOR_FAKE_CARDS", "1");
    show_whole_lines();
  }
  /// What detect reports about CUDA and a card.
  json cuda_of(const std::string& name) {
    const json found = json::parse(run({"detect", "--json"}).out);
    for (const json& device : found["devices"])
      for (const json& backend : device["backends"])
        if (device["name"] == name && backend["name"] == "cuda") return backend;
    return json();
  }
};

TEST_F(FakeCuda, DetectAndDoctorSayThatTheCompilerIsMissing) {
  const json cuda = cuda_of("Fake card 0");
  ASSERT_TRUE(cuda.is_object());
  EXPECT_EQ(cuda["usable"], false);
  EXPECT_EQ(cuda["no_compiler"], true);
  EXPECT_THAT(cuda["reason"].get<std::string>(),
              AllOf(AnyOf(HasSubstr("no NVRTC library"), HasSubstr("does not compile for sm_10")),
                    HasSubstr("pip install nvidia-cuda-nvrtc-cu12")));
  EXPECT_THAT(run({"detect"}).out, HasSubstr("NVRTC"));
  EXPECT_THAT(run({"doctor", "--lang", "en"}).out, HasSubstr("there is no NVRTC that compiles"));
  EXPECT_THAT(run({"doctor", "--plan", "athanor", "--lang", "en"}).out, HasSubstr("NVRTC"));
}

TEST_F(FakeCuda, ADeviceWithoutCompilerIsRefusedAndLeftOut) {
  const std::vector<std::string> train{"train",        "--model", "mlp",         "--data", "fashion-mnist",
                                       "--batch-size", "4",       "--max-steps", "1",      "--out",
                                       "run",          "--device"};
  auto words = train;
  words.emplace_back("cuda:0");
  const Outcome asked = run(words);
  EXPECT_EQ(asked.exit_code, 1) << "does fake_cuda.cpp have every function of cuda/table.cpp?";
  EXPECT_THAT(asked.err, AllOf(HasSubstr("cannot use cuda:0 (Fake card 0)"), HasSubstr("NVRTC"),
                               HasSubstr("pip install nvidia-cuda-nvrtc-cu12"),
                               Not(HasSubstr("failed its examination"))));
  words.back() = "auto";
  const Outcome chosen = run(words);
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_THAT(chosen.out + chosen.err, HasSubstr("cuda:0 is left out: cannot use cuda:0 (Fake card 0)"));
  words[words.size() - 3] = "another";
  words.back() = "gpu";
  const Outcome gpu = run(words);
  EXPECT_EQ(gpu.exit_code, 1);
  EXPECT_THAT(gpu.err, HasSubstr("Fake card 0"));
}

TEST_F(FakeCuda, EachDriverIsToldTheCompilerThatFitsIt) {
  const auto advised = [&](const char* driver) {
    set_variable("ATHANOR_FAKE_DRIVER", driver);
    const json cuda = cuda_of("Fake card 0");
    return cuda.is_object() ? cuda["reason"].get<std::string>() : "CUDA does not list the card";
  };
  EXPECT_THAT(advised("11080"), HasSubstr("pip install nvidia-cuda-nvrtc-cu11"));
  EXPECT_THAT(advised("12090"), HasSubstr("pip install nvidia-cuda-nvrtc-cu12"));
  EXPECT_THAT(advised("13000"), AllOf(HasSubstr("pip install nvidia-cuda-nvrtc"), Not(HasSubstr("-cu1"))));
}

TEST_F(FakeCuda, CountsWhatAVariableShows) {
  set_variable("ATHANOR_FAKE_CARDS", "2");
  EXPECT_TRUE(cuda_of("Fake card 0").is_object());
  EXPECT_TRUE(cuda_of("Fake card 1").is_object());
  set_variable("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_TRUE(cuda_of("Fake card 0").is_null()) << "nothing but CUDA sees it";
  EXPECT_TRUE(cuda_of("Fake card 1").is_object());
}

}  // namespace
}  // namespace athanor::testing
