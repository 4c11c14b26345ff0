// The step that commands show is the step that training makes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "athanor/base/file.h"
#include "athanor/formats/npy.h"
#include "tests/cli/program_test.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class StepOptions : public testing::ProgramTest {
 protected:
  /// Twelve images of three classes in the folder.
  void write_images() const {
    HostArray images(DType::u8, {12, 8, 8}), labels(DType::i64, {12});
    for (size_t i = 0; i < 12; ++i) labels.as<int64_t>()[i] = static_cast<int64_t>(i % 3);
    for (const char* split : {"train", "test"}) {
      write_npy(folder_ / fmt::format("{}_images.npy", split), images);
      write_npy(folder_ / fmt::format("{}_labels.npy", split), labels);
    }
  }
  json explained(Words words) const {
    words.insert(words.begin(), "explain");
    words.insert(words.end(), {"--device", "cpu", "--threads", "1", "--deterministic", "--json"});
    const testing::Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json::parse(outcome.out) : json();
  }
};

/// What a step computes, in order. The places of its inputs may differ.
std::vector<std::string> steps_of(const json& plan) {
  std::vector<std::string> steps;
  for (const json& step : plan["steps"])
    steps.push_back(fmt::format("{} {} {}", step["ops"].dump(), step["kernel"].dump(), step["bytes"].dump()));
  return steps;
}

TEST_F(StepOptions, ExplainShowsTheStepThatIsTrained) {
  write_images();
  write_file_atomically(folder_ / "numbers.csv", [] {
    std::string table = "a,b,y\n";
    for (int i = 0; i < 60; ++i) table += fmt::format("{},{},{}\n", i, i * 7 % 11, i * 2.5);
    return table;
  }());
  std::string words;
  for (int i = 0; i < 300; ++i) words += "one two three, four five.\n";
  write_file_atomically(folder_ / "text.txt", words);
  write_file_atomically(folder_ / "run.toml", "model = 'cnn'\nema = 0.9\nclip_norm = 1\nepochs = 9\n");
  const std::vector<Words> cases{
      {"--data", ".", "--model", "cnn", "--freeze", "*weight"},
      {"--data", ".", "--model", "cnn", "--ema", "0.9"},
      {"--data", ".", "--model", "cnn", "--clip-norm", "1", "--label-smoothing", "0.1"},
      {"--data", ".", "--model", "cnn", "--augment", "flip,erase", "--augment-on", "device"},
      {"--data", ".", "--model", "cnn", "--augment", "mixup"},
      {"--data", ".", "--model", "cnn", "--momentum", "0", "--weight-decay-on", "weights"},
      {"--data", ".", "--config", "run.toml"},
      {"--data", "numbers.csv", "--task", "regression", "--target", "y,b", "--loss", "huber"},
      {"--data", "text.txt", "--model", "gpt2-nano", "--context", "16", "--lora", "2"},
      {"--data", "text.txt", "--model", "bert-tiny", "--context", "16"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    Words options = cases[i];
    options.insert(options.end(), {"--batch-size", "4"});
    SCOPED_TRACE(fmt::format("{}", fmt::join(options, " ")));
    const std::string out = fmt::format("run{}", i);
    Words train = options;
    train.insert(train.begin(), "train");
    train.insert(train.end(), {"--device", "cpu", "--threads", "1", "--deterministic", "--max-steps", "2",
                               "--eval-examples", "4", "--out", out, "--quiet"});
    const testing::Outcome trained = run(train);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    const json plan = json::parse(text(out + "/plan.json")), shown = explained(options);
    EXPECT_EQ(steps_of(shown), steps_of(plan));
    EXPECT_EQ(shown["arena_bytes"], plan["arena_bytes"]);
    EXPECT_EQ(shown["planned_memory_bytes"], plan["planned_memory_bytes"]);
  }
}

TEST_F(StepOptions, EachOptionChangesWhatIsPlanned) {
  const Words usual{"--model", "cnn", "--batch-size", "8", "--input", "1,8,8"};
  const auto planned = [&](const Words& more) {
    Words words = usual;
    words.insert(words.end(), more.begin(), more.end());
    return steps_of(explained(words));
  };
  const auto without = planned({});
  for (const Words& more : {Words{"--accumulate", "4"},
                            {"--freeze", "*bias"},
                            {"--ema", "0.9"},
                            {"--clip-norm", "1"},
                            {"--label-smoothing", "0.1"},
                            {"--augment", "flip", "--augment-on", "device"},
                            {"--augment", "cutmix"},
                            {"--optimizer", "adam"},
                            {"--weight-decay", "0"}})
    EXPECT_NE(planned(more), without) << more.front();
}

TEST_F(StepOptions, ADefaultBatchIsNoLargerThanTheData) {
  write_images();
  const Words common{"--data", ".", "--model", "mlp", "--device", "cpu", "--threads", "1"};
  const auto with = [&](const Words& before, const Words& after = {}) {
    Words words = before;
    words.insert(words.end(), common.begin(), common.end());
    words.insert(words.end(), after.begin(), after.end());
    return run(words);
  };
  const testing::Outcome trained = with({"train"}, {"--out", "run", "--max-steps", "2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("batch 12 (the default of 128 is more than the training data)"));
  EXPECT_EQ(json::parse(text("run/summary.json"))["batch_size"], 12);
  const testing::Outcome resumed = run({"train", "--resume", "--out", "run", "--max-steps", "3"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(json::parse(text("run/summary.json"))["steps"], 3);
  const testing::Outcome parts = with({"train"}, {"--out", "parts", "--max-steps", "1", "--accumulate", "8"});
  ASSERT_EQ(parts.exit_code, 0) << parts.err;
  EXPECT_EQ(json::parse(text("parts/summary.json"))["batch_size"], 8) << "eight parts of one size";
  EXPECT_THAT(with({"explain"}).out, HasSubstr("of mlp, batch 12:"));
  const testing::Outcome swept = with({"train"}, {"--find-lr", "lr.svg"});
  ASSERT_EQ(swept.exit_code, 0) << swept.err;
  EXPECT_THAT(text("lr.svg"), HasSubstr("batch 12,"));

  const testing::Outcome asked = with({"train"}, {"--out", "other", "--batch-size", "128"});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_THAT(asked.err, HasSubstr("a batch of 128 is larger than the 12 training images"));
  EXPECT_THAT(asked.err, HasSubstr("Give at most 12"));
}

TEST_F(StepOptions, WhatIsNoPartOfAStepIsRefused) {
  for (const Words& command : {Words{"explain"}, {"fit"}, {"tune"}, {"kernels", "dump", "--out", "d"}}) {
    Words words = command;
    words.insert(words.end(), {"--epochs", "3"});
    const testing::Outcome refused = run(words);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--epochs is an option of 'athanor train'"));
  }
  EXPECT_THAT(run({"explain", "--data", "fashion-mnist", "--model", "gpt2-nano"}).err,
              HasSubstr("text file"));
  write_file_atomically(folder_ / "table.csv", "a,b,label\n1,2,0\n3,4,1\n5,6,0\n");
  EXPECT_THAT(run({"fit", "--model", "resnet18", "--data", "table.csv", "--device", "cpu"}).err,
              HasSubstr("resnet18 takes no inputs of shape [1, 1, 2]"));
}

TEST_F(StepOptions, FitChecksAndDrawsWhatItAdvises) {
  const testing::Outcome outcome =
      run({"fit",   "--model",      "cnn",   "--input",      "1,8,8", "--device", "cpu", "--threads",
           "1",     "--batch-size", "64",    "--accumulate", "4",     "--ema",    "0.9", "--memory-limit",
           "64MiB", "--check",      "--svg", "fit.svg"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("athanor train --model cnn"));
  EXPECT_THAT(outcome.out, HasSubstr("--accumulate 4"));
  EXPECT_THAT(outcome.out, HasSubstr("--ema 0.9"));
  EXPECT_THAT(outcome.out, HasSubstr("--memory-limit 64MiB"));
  EXPECT_THAT(outcome.out, HasSubstr("Checked with 3 steps: "));
  EXPECT_THAT(outcome.out, HasSubstr("The process grew by "));
  const std::string svg = text("fit.svg");
  EXPECT_THAT(svg, HasSubstr("limit 64.0 MiB"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST_F(StepOptions, ExplainSaysWhichPartItShows) {
  const Words words{"--model", "mlp", "--batch-size", "128", "--accumulate", "4"};
  const json plan = explained(words);
  EXPECT_EQ(plan["batch_size"], 128);
  EXPECT_EQ(plan["accumulate"], 4);
  Words in_words = words;
  in_words.insert(in_words.begin(), {"explain", "--device", "cpu", "--deterministic"});
  EXPECT_THAT(run(in_words).out, HasSubstr("batch 128 in 4 parts of 32; this is the plan of the last part:"));
  in_words.emplace_back("--inference");
  EXPECT_THAT(run(in_words).out, HasSubstr("Inference of mlp, batch 128:"));
  Words forward = words;
  forward.emplace_back("--inference");
  EXPECT_EQ(explained(forward)["accumulate"], 1);
}

TEST_F(StepOptions, FieldsOfAPlanAreDocumented) {
  const std::string page = read_text_file(std::filesystem::path(ATHANOR_SOURCE_DIR) / "docs/architecture.md");
  const size_t begin = page.find("## plan.json"), end = page.find("\n## ", begin + 1);
  std::istringstream lines(page.substr(begin, end - begin));
  std::vector<std::set<std::string>> tables;  // of a plan, a step and a value
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| field")) tables.emplace_back();
    if (!line.starts_with("| `")) continue;
    const std::string names = line.substr(0, line.find(" | "));
    for (size_t at = names.find('`'); at != std::string::npos; at = names.find('`', at + 1)) {
      const size_t close = names.find('`', at + 1);
      tables.back().insert(names.substr(at + 1, close - at - 1));
      at = close;
    }
  }
  ASSERT_EQ(tables.size(), 3U);
  const json plan = explained({"--model", "mlp", "--accumulate", "2", "--profile"});
  const auto expect_documented = [](const json& fields, const std::set<std::string>& known) {
    for (const auto& [name, value] : fields.items()) EXPECT_TRUE(known.contains(name)) << name;
  };
  expect_documented(plan, tables[0]);
  for (const json& step : plan["steps"]) expect_documented(step, tables[1]);
  for (const json& value : plan["values"]) expect_documented(value, tables[2]);
}

TEST_F(StepOptions, FitSaysHowMuchIsNeededAndWhatHelps) {
  const Words words{"fit",      "--model", "gpt2-nano", "--context", "32",          "--batch-size", "701",
                    "--device", "cpu",     "--threads", "1",         "--precision", "f32"};
  const auto with_limit = [&](const std::string& limit) {
    Words all = words;
    all.insert(all.end(), {"--memory-limit", limit});
    return run(all);
  };
  const testing::Outcome low = with_limit("1MiB");
  EXPECT_EQ(low.exit_code, 2);
  EXPECT_THAT(low.err, HasSubstr("not even a batch of 1 fits into 1.00 MiB: it needs "));
  EXPECT_THAT(low.err, HasSubstr("--lora 8 ("));
  EXPECT_THAT(low.err, HasSubstr("a smaller model"));
  EXPECT_EQ(low.err.find("--offload"), std::string::npos) << "the CPU's state is in host memory already";
  const std::string give = "Give at least ";
  const size_t begin = low.err.find(give);
  ASSERT_NE(begin, std::string::npos) << low.err;
  const std::string least =
      low.err.substr(begin + give.size(), low.err.find('.', begin) - begin - give.size());
  const testing::Outcome enough = with_limit(least);
  EXPECT_EQ(enough.exit_code, 1) << enough.err;
  EXPECT_THAT(enough.out, HasSubstr("A batch of 701 does not fit in any way. The largest that fits has "));
  const testing::Outcome any = run({"fit", "--model", "gpt2-nano", "--context", "32", "--device", "cpu",
                                    "--threads", "1", "--precision", "f32", "--memory-limit", least});
  EXPECT_EQ(any.exit_code, 0) << any.out << any.err;
  EXPECT_THAT(any.out, HasSubstr("\n* athanor train --model gpt2-nano"));
}

TEST_F(StepOptions, FitMeasuresWhatItPlans) {
  const testing::Outcome outcome =
      run({"fit", "--model", "cnn", "--device", "cpu", "--threads", "1", "--batch-size", "2048",
           "--memory-limit", "4GiB", "--precision", "f32", "--check", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  const double planned = result["advised"]["planned_memory_bytes"], measured = result["measured_peak_bytes"];
  EXPECT_NEAR(measured / planned, 1, 0.05);
  const double resident = result["measured_resident_bytes"];
  EXPECT_NEAR(resident / planned, 1, 0.15) << "with what the process takes besides";
  EXPECT_GT(result["measured_seconds"], 0);
}

}  // namespace
}  // namespace athanor
