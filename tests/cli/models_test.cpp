// Every kind of model from the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/formats/npy.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ModelsProgram : public testing::ProgramTest {};

TEST_F(ModelsProgram, ExplainShowsEveryKind) {
  for (const char* name : {"vit-tiny", "inception_v3", "bert-tiny"}) {
    const testing::Outcome outcome = run({"explain", "--model", name, "--batch-size", "2", "--device", "cpu",
                                          "--threads", "1", "--deterministic", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << name << outcome.err;
    const json plan = json::parse(outcome.out);
    EXPECT_GT(plan["kernels_total"], 50) << name;
    EXPECT_EQ(plan["kernels_off_device"], 0) << name;
  }
}

TEST_F(ModelsProgram, ViTIsTrained) {
  HostArray images(DType::u8, {12, 8, 8}), labels(DType::i64, {12});
  for (const char* split : {"train", "test"}) {
    write_npy(folder_ / fmt::format("{}_images.npy", split), images);
    write_npy(folder_ / fmt::format("{}_labels.npy", split), labels);
  }
  const testing::Outcome trained =
      run({"train", "--model", "vit-tiny", "--data", ".", "--device", "cpu", "--threads", "1", "--batch-size",
           "4", "--max-steps", "2", "--out", "run", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(trained.out)["steps"], 2);
}

TEST_F(ModelsProgram, BertIsTrainedAndTested) {
  std::string content;
  for (int i = 0; i < 200; ++i) content += "one two three, four five.\n";
  write_file_atomically(folder_ / "text.txt", content);
  const Words train{"train", "--model",   "bert-tiny", "--data",      "text.txt", "--device",
                    "cpu",   "--threads", "1",         "--context",   "16",       "--batch-size",
                    "4",     "--out",     "run",       "--max-steps", "3"};
  const testing::Outcome trained = run(train);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("windows of 16 with 2 hidden"));
  EXPECT_THAT(trained.out, HasSubstr("hidden tokens of test text are named, perplexity"));
  EXPECT_THAT(trained.out, HasSubstr("athanor eval --data FILE.txt --checkpoint run"));
  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  const json result = json::parse(tested.out), summary = json::parse(text("run/summary.json"));
  EXPECT_NEAR(result["test_loss"], summary["test_loss"], 1e-6);
  EXPECT_NEAR(result["test_perplexity"], summary["test_perplexity"], 1e-4);
  for (const Words& words :
       {Words{"sample", "run", "--prompt", "one"}, Words{"predict", "x.png", "--checkpoint", "run"}}) {
    const testing::Outcome refused = run(words);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("athanor eval --data FILE.txt"));
  }
}

}  // namespace
}  // namespace athanor
