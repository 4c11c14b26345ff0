// Runs that train adapters.
#include <gtest/gtest.h>

#include "athanor/nn/lora.h"
#include "athanor/nn/models.h"
#include "athanor/train/initial_values.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class LoraRun : public testing::TrainerTest {
 protected:
  LoraRun() {
    use_text("gpt2-nano", testing::repeating_text("abcabd"));
    train("base");
    config_.max_steps = 60;
    config_.init = run_folder("base").checkpoint().string();
    config_.lora = 2;
    config_.lora_alpha = 4;
    config_.data = (folder_ / "other.txt").string();
    write_file_atomically(config_.data, testing::repeating_text("bacdab"));
  }
};

TEST_F(LoraRun, OnlyAdaptersChange) {
  train("adapted");
  const Checkpoint base = read_checkpoint(run_folder("base").checkpoint());
  const Checkpoint adapted = read_checkpoint(run_folder("adapted").checkpoint());
  size_t changed = 0;
  for (const auto& [name, array] : adapted.model) {
    if (nn::is_lora(name)) {
      ++changed;
      continue;
    }
    EXPECT_EQ(array.bytes, base.model.at(name).bytes) << name;
  }
  EXPECT_EQ(changed, 3 * 4 * 2U) << "four layers in each of three blocks";
  for (const auto& [name, array] : adapted.optimizer)
    EXPECT_TRUE(name.find("lora_") != std::string::npos || name.find('.') == std::string::npos) << name;
  const double first = read_metrics(run_folder("adapted").metrics()).front().loss;
  EXPECT_LT(summary("adapted")["test_loss"], 0.3 * first);
}

TEST_F(LoraRun, AnotherRunBeginsFromTheMergedModel) {
  train("adapted");
  const Checkpoint adapted = read_checkpoint(run_folder("adapted").checkpoint());
  const auto kept = restore_model(adapted, "adapted");
  const auto merged = nn::make_model("gpt2-nano", {16}, 256);
  load_initial_values(*merged, run_folder("adapted").checkpoint());
  EXPECT_EQ(merged->state_dict().size(), kept->state_dict().size() - 24);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 16; ++i) tokens.push_back(97 + i % 4);
  const Tensor x = Tensor::from(tokens, {1, 16});
  const auto one = (*kept)(x).to_vector<float>(), other = (*merged)(x).to_vector<float>();
  for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], other[i], 1e-4);
}

TEST_F(LoraRun, StoppedAnywhereItGoesOnToTheSameNumbers) {
  train("whole");
  for (const int64_t stop : {1, 17, 60}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(LoraRun, WhatMakesNoSenseIsExplained) {
  config_.lora = 4096;
  expect_error(ErrorCode::usage, {"rank 4096", "--lora"}, [&] { train("a"); });
  config_.lora = 0;
  expect_error(ErrorCode::usage, {"--lora-alpha", "--lora 8"}, [&] { train("a"); });
  TrainConfig pictures;
  pictures.model = "resnet18";
  pictures.data = (folder_ / "data").string();
  pictures.device = "cpu";
  pictures.batch_size = 8;
  pictures.lora = 2;
  config_ = pictures;
  expect_error(ErrorCode::usage, {"resnet18", "transformers", "--lora"}, [&] { train("a"); });
}

}  // namespace
}  // namespace athanor
