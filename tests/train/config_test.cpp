#include "athanor/train/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

TrainConfig unusual() {
  TrainConfig config;
  config.model = "mlp";
  config.lr = 0.1 + 0.2;
  config.seed = UINT64_MAX;
  config.checkpoint_every = {.seconds = 0, .steps = 7};
  config.deterministic = true;
  return config;
}

TEST(TrainConfig, SurvivesJson) {
  for (const TrainConfig& config : {TrainConfig{}, unusual()})
    EXPECT_EQ(train_config_from_json(nlohmann::json::parse(to_json(config).dump()), "test"), config);
}

TEST(TrainConfig, RefusesOtherJson) {
  auto json = to_json(TrainConfig{});
  json["batch_size"] = "many";
  expect_error(ErrorCode::format, {"batch_size", "config.json"},
               [&] { train_config_from_json(json, "config.json"); });
  json = to_json(TrainConfig{});
  json.erase("seed");
  expect_error(ErrorCode::format, {"seed"}, [&] { train_config_from_json(json, "config.json"); });
  json = to_json(TrainConfig{});
  json.erase("eval_examples");  // runs from before this option lack it
  EXPECT_EQ(train_config_from_json(json, "config.json"), TrainConfig{});
  json["from_the_future"] = 1;
  expect_error(ErrorCode::format, {"from_the_future", "newer"},
               [&] { train_config_from_json(json, "config.json"); });
  expect_error(ErrorCode::format, {"config.json"},
               [&] { train_config_from_json(nlohmann::json::array(), "config.json"); });
}

TEST(TrainConfig, ValidatesEveryOption) {
  const auto refused = [](const std::vector<std::string>& words, auto change) {
    TrainConfig config;
    change(config);
    expect_error(ErrorCode::usage, words, [&] { config.validate(); });
  };
  EXPECT_NO_THROW(TrainConfig{}.validate());
  refused({"--batch-size", "0"}, [](TrainConfig& c) { c.batch_size = 0; });
  refused({"--epochs", "-1"}, [](TrainConfig& c) { c.epochs = -1; });
  refused({"--threads", "100000"}, [](TrainConfig& c) { c.threads = 100000; });
  refused({"--eval-examples", "-1"}, [](TrainConfig& c) { c.eval_examples = -1; });
  refused({"--workers", "-2"}, [](TrainConfig& c) { c.workers = -2; });
  refused({"--lr", "nan"}, [](TrainConfig& c) { c.lr = std::nan(""); });
  refused({"--lr", "inf"}, [](TrainConfig& c) { c.lr = std::numeric_limits<double>::infinity(); });
  refused({"--lr", "0"}, [](TrainConfig& c) { c.lr = 0; });
  refused({"--momentum", "1"}, [](TrainConfig& c) { c.momentum = 1; });
  refused({"--weight-decay"}, [](TrainConfig& c) { c.weight_decay = -1; });
  refused({"--label-smoothing"}, [](TrainConfig& c) { c.label_smoothing = 1; });
  refused({"--clip-norm"}, [](TrainConfig& c) { c.clip_norm = -1; });
  refused({"--warm-up", "one-cycle"}, [](TrainConfig& c) { c.warm_up = 10; });
  refused({"--model", "resnet18"}, [](TrainConfig& c) { c.model = "resnet"; });
  refused({"--optimizer", "'adamw'"}, [](TrainConfig& c) { c.optimizer = "adanw"; });
  refused({"--schedule", "'one-cycle'"}, [](TrainConfig& c) { c.schedule = "onecycle"; });
}

TEST(TrainConfig, ReadsCheckpointIntervals) {
  EXPECT_EQ(parse_checkpoint_interval("200"), (CheckpointInterval{0, 200}));
  EXPECT_EQ(parse_checkpoint_interval("45s"), (CheckpointInterval{45, 0}));
  for (const char* text : {"", "s", "0", "-1", "1.5", "2m", "0s", "1 s"})
    expect_error(ErrorCode::usage, {"--checkpoint-every", "30s"}, [&] { parse_checkpoint_interval(text); });
}

TEST(TrainConfig, ResumedRunsKeepWhatDecidesTheirNumbers) {
  const TrainConfig stored = unusual();
  TrainConfig given;
  const auto nothing = [](const std::string&) { return false; };
  EXPECT_EQ(resume_config(stored, given, nothing, "runs/a"), stored);

  given.max_steps = 90;
  given.workers = 3;
  const auto two = [](const std::string& field) { return field == "max_steps" || field == "workers"; };
  const TrainConfig resumed = resume_config(stored, given, two, "runs/a");
  EXPECT_EQ(resumed.max_steps, 90);
  EXPECT_EQ(resumed.workers, 3);
  EXPECT_EQ(resumed.model, "mlp");

  given.batch_size = 64;
  const auto batch = [](const std::string& field) { return field == "batch_size"; };
  expect_error(ErrorCode::usage, {"--batch-size", "64", "128", "runs/a"},
               [&] { resume_config(stored, given, batch, "runs/a"); });
  given.batch_size = stored.batch_size;  // setting the same value is not a change
  EXPECT_EQ(resume_config(stored, given, batch, "runs/a"), stored);
}

}  // namespace
}  // namespace athanor
