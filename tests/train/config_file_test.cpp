#include "athanor/train/config_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

nlohmann::json fields_of(const std::string& text) {
  const TempFolder folder;
  write_file_atomically(folder / "run.toml", text);
  return read_config_file(folder / "run.toml");
}

TEST(ConfigFile, SaysOptionsAsTheCommandLineDoes) {
  TrainConfig wanted;
  wanted.model = "resnet18";
  wanted.batch_size = 64;
  wanted.lr = 0.05;
  wanted.weight_decay = 1;
  wanted.deterministic = true;
  wanted.checkpoint_every = {.seconds = 0, .steps = 200};
  EXPECT_EQ(
      with_fields({}, fields_of("model = 'resnet18'\nbatch-size = 64 # few\nlr = 0.05\nweight_decay = 1\n"
                                "deterministic = true\ncheckpoint-every = 200")),
      wanted);
}

TEST(ConfigFile, AWrittenOneIsReadAgain) {
  TrainConfig config = default_config("gpt2-nano");
  config.data = "a \"quoted\" \\ path/ü.txt";
  config.ema = 0.999;
  config.seed = 123456789012345;
  EXPECT_EQ(with_fields({}, fields_of(to_toml(config))), config);
  EXPECT_EQ(with_fields({}, fields_of(to_toml({}))), TrainConfig());
}

TEST(ConfigFile, EveryOptionIsWrittenAndReadAgain) {
  const nlohmann::json defaults = to_json(TrainConfig{});
  for (const auto& [name, value] : defaults.items()) {
    nlohmann::json other = 0.25;
    if (value.is_boolean()) other = !value.get<bool>();
    if (value.is_string()) other = name == "checkpoint_every" ? "7s" : "x\ty";
    if (value.is_number_integer()) other = value.get<int64_t>() + 7;
    const TrainConfig config = with_fields({}, {{name, other}});
    EXPECT_NE(config, TrainConfig()) << name;
    EXPECT_EQ(with_fields({}, fields_of(to_toml(config))), config) << name;
  }
}

TEST(ConfigFile, HasSeedsThatTomlHasNoNumbersFor) {
  TrainConfig config;
  for (const uint64_t seed : {uint64_t{INT64_MAX}, uint64_t{INT64_MAX} + 1, UINT64_MAX}) {
    config.seed = seed;
    EXPECT_EQ(with_fields({}, fields_of(to_toml(config))).seed, seed);
  }
  expect_error(ErrorCode::usage, {"seed", "whole number"},
               [] { fields_of("seed = '18446744073709551616'"); });
}

TEST(ConfigFile, NamesMistakes) {
  expect_error(ErrorCode::usage, {"'bach_size'", "run.toml", "'batch_size'"},
               [] { fields_of("bach_size = 3"); });
  expect_error(ErrorCode::usage, {"epochs = 2.5", "whole number"}, [] { fields_of("epochs = 2.5"); });
  expect_error(ErrorCode::usage, {"epochs = \"4\"", "whole number"}, [] { fields_of("epochs = '4'"); });
  expect_error(ErrorCode::usage, {"seed = -1", "from 0 on"}, [] { fields_of("seed = -1"); });
  expect_error(ErrorCode::usage, {"lr = true", "a number"}, [] { fields_of("lr = true"); });
  expect_error(ErrorCode::usage, {"model = 3", "quotes"}, [] { fields_of("model = 3"); });
  expect_error(ErrorCode::usage, {"train"}, [] { fields_of("[train]\nepochs = 2"); });
  expect_error(ErrorCode::format, {"run.toml:1:10", "no value", "numbers as 3"},
               [] { fields_of("epochs = = 2"); });
  expect_error(ErrorCode::format, {"run.toml:2:9", "no value", "quotes: model = \"cnn\""},
               [] { fields_of("epochs = 2\nmodel = cnn\n"); });
  expect_error(ErrorCode::format, {"run.toml:1:", "expected '='", "NAME = VALUE"},
               [] { fields_of("batch-size: 4\n"); });
  expect_error(ErrorCode::format, {"run.toml:1:", "true or false"},
               [] { fields_of("deterministic = yes\n"); });
}

}  // namespace
}  // namespace athanor
