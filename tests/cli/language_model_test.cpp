// Language models from the command line: options in a file, training, testing, writing.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "tests/cli/program_test.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class LanguageModelProgram : public testing::ProgramTest {
 protected:
  LanguageModelProgram() {
    show_whole_lines();
    std::string text;
    for (int i = 0; i < 400; ++i) text += "one two three, four five.\n";
    write_file_atomically(folder_ / "text.txt", text);
    write_file_atomically(
        folder_ / "run.toml",
        "model = 'gpt2-nano'\ndata = 'text.txt'\ndevice = 'cpu'\nthreads = 1\ncontext = 32\n"
        "batch-size = 4\nepochs = 3\nsample = 20\n");
  }
};

TEST_F(LanguageModelProgram, TrainsTestsAndWrites) {
  const testing::Outcome trained = run({"train", "--config", "run.toml", "--epochs", "1", "--out", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("tokens (bytes), windows of 32"));
  EXPECT_THAT(trained.out, HasSubstr("bits per byte"));
  EXPECT_THAT(trained.out, HasSubstr("athanor sample --prompt TEXT --checkpoint run"));
  const json config = json::parse(text("run/config.json"));
  EXPECT_EQ(config["epochs"], 1) << "the command line goes first";
  EXPECT_EQ(config["batch_size"], 4) << "then the file";
  EXPECT_EQ(config["optimizer"], "adamw") << "then the model's own";

  const testing::Outcome tested = run({"eval", "run", "--device", "cpu", "--json"});
  ASSERT_EQ(tested.exit_code, 0) << tested.err;
  EXPECT_NEAR(json::parse(tested.out)["test_loss"], json::parse(text("run/summary.json"))["test_loss"], 1e-6);
  const testing::Outcome other = run({"eval", "run", "--device", "cpu", "--data", "run.toml"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("bits per byte, perplexity"));

  const Words sample{"sample", "run", "--device", "cpu", "--prompt", "one two", "--tokens", "12", "--json"};
  const testing::Outcome first = run(sample), again = run(sample);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, again.out) << "of one seed";
  EXPECT_EQ(json::parse(first.out)["tokens"].size(), 12U);
  const testing::Outcome shown =
      run({"sample", "run/best.safetensors", "--device", "cpu", "--prompt", "one t", "--tokens", "3"});
  EXPECT_THAT(shown.out, ::testing::StartsWith("one t")) << shown.err;
}

// Texts of 60 lengths: kernels for similar lengths share timings, so few are timed.
TEST_F(LanguageModelProgram, IsNotTunedForEachLength) {
  ASSERT_EQ(run({"train", "--data", "text.txt", "--context", "64", "--batch-size", "4", "--max-steps", "1",
                 "--device", "cpu", "--out", "run", "--quiet"})
                .exit_code,
            0);
  const auto results = [&] {
    const std::string listed = run({"cache", "ls"}).out;
    const testing::Match number = testing::first_match(listed, "([0-9]+) tuning results");
    return number.empty() ? -1 : std::stoi(number[1]);
  };
  const int before = results();
  ASSERT_GT(before, 0);
  const testing::Outcome written =
      run({"sample", "run", "--device", "cpu", "--prompt", "o", "--tokens", "60"});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_LE(results() - before, 10);
}

TEST_F(LanguageModelProgram, IsWhatLearnsATextIfNoModelIsGiven) {
  const testing::Outcome trained = run({"train", "--data", "text.txt", "--context", "32", "--batch-size", "4",
                                        "--max-steps", "1", "--device", "cpu", "--out", "run", "--quiet"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(json::parse(text("run/config.json"))["model"], "gpt2-nano");
}

// Text is written when a run ends, even within its first epoch, and only once if that is the end of an epoch.
TEST_F(LanguageModelProgram, WritesWhereTheRunEnds) {
  const auto steps_of_samples = [&](const Words& more) {
    Words words{"train", "--config", "run.toml", "--out", "run", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const testing::Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::vector<int64_t> steps;
    for (const std::string& line : split(trim(text("run/samples.jsonl")), '\n'))
      steps.push_back(json::parse(line)["step"]);
    return steps;
  };
  EXPECT_EQ(steps_of_samples({"--max-steps", "2"}), std::vector<int64_t>{2});
  const std::vector<int64_t> whole = steps_of_samples({"--resume", "--max-steps", "100000"});
  ASSERT_EQ(whole.size(), 4U) << "2, and after each of three epochs";
  EXPECT_EQ(whole.front(), 2);
  EXPECT_EQ(whole[3], 3 * whole[1]);
}

TEST_F(LanguageModelProgram, FitAdvisesACommandThatTrainsAsPlanned) {
  const testing::Outcome found =
      run({"fit", "--model", "gpt2-nano", "--context", "32", "--batch-size", "4", "--lora", "4", "--threads",
           "1", "--deterministic", "--device", "cpu", "--memory-limit", "64MiB", "--json"});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  Words words = split(json::parse(found.out)["command"].get<std::string>(), ' ');
  ASSERT_EQ(words.front(), "athanor");
  words.erase(words.begin());
  std::ranges::replace(words, std::string("FILE.txt"), std::string("text.txt"));
  words.insert(words.end(), {"--max-steps", "1", "--out", "advised", "--quiet"});
  const testing::Outcome trained = run(words);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const json config = json::parse(text("advised/config.json"));
  EXPECT_EQ(config["lora"], 4);
  EXPECT_EQ(config["memory_limit"], 64 << 20);
  EXPECT_EQ(config["threads"], 1);
  EXPECT_EQ(config["deterministic"], true);
  EXPECT_EQ(config["context"], 32);
  EXPECT_EQ(config["device"], "cpu");
}

TEST_F(LanguageModelProgram, FitPlansWhatTrainingTakes) {
  ASSERT_EQ(run({"train", "--config", "run.toml", "--max-steps", "2", "--out", "run", "--quiet"}).exit_code,
            0);
  const json summary = json::parse(text("run/summary.json"));
  const Words words{"fit",  "--model",   "gpt2-nano", "--context", "32",  "--batch-size",
                    "4",    "--threads", "1",         "--device",  "cpu", "--memory-limit",
                    "64MiB"};
  Words as_json = words;
  as_json.emplace_back("--json");
  const testing::Outcome found = run(as_json);
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const json fits = json::parse(found.out);
  bool seen = false;
  for (const json& one : fits["cases"]) {
    if (one["batch_size"] != 4 || one["precision"] != "f32" || one["recompute"] || one["accumulate"] != 1)
      continue;
    // The plan includes AdamW's two averages of each parameter, like training.
    EXPECT_NEAR(one["planned_memory_bytes"], summary["planned_memory_bytes"],
                0.02 * summary["planned_memory_bytes"].get<double>());
    seen = true;
  }
  EXPECT_TRUE(seen) << fits.dump();
  EXPECT_THAT(fits["command"], HasSubstr("--data FILE.txt --context 32"));
  const testing::Outcome table = run(words);
  EXPECT_THAT(table.out, HasSubstr("windows of 32 tokens"));
  EXPECT_THAT(table.out, HasSubstr("tokens/s"));
  EXPECT_EQ(table.out.find("image"), std::string::npos) << table.out;
}

TEST_F(LanguageModelProgram, MistakesAreExplained) {
  const auto refused = [&](const Words& words, const std::vector<std::string>& parts) {
    const testing::Outcome outcome = run(words);
    EXPECT_NE(outcome.exit_code, 0);
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({"train", "--model", "gpt2-nano", "--device", "cpu"}, {"text file", "--data FILE.txt"});
  refused({"train", "--model", "cnn", "--context", "5"}, {"--context", "cnn does not learn from text"});
  refused({"train", "--config", "none.toml"}, {"none.toml"});
  write_file_atomically(folder_ / "bad.toml", "epoch = 3\n");
  refused({"train", "--config", "bad.toml"}, {"'epoch'", "bad.toml", "'epochs'"});
  ASSERT_EQ(run({"train", "--config", "run.toml", "--max-steps", "1", "--out", "run", "--quiet"}).exit_code,
            0);
  refused({"predict", "text.txt", "--checkpoint", "run", "--device", "cpu"}, {"athanor sample"});
  refused({"sample", "run", "--device", "cpu", "--prompt", ""}, {"--prompt"});
  refused({"sample", "run", "--device", "cpu", "--temperature", "-1"}, {"--temperature"});
}

}  // namespace
}  // namespace athanor
