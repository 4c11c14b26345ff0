// Runs that learn to name hidden tokens of a short text.
#include "athanor/train/masked_language_modelling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/train/test_set.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class MaskedLanguageModelRun : public testing::TrainerTest {
 protected:
  MaskedLanguageModelRun() {
    std::string text;
    for (int i = 0; i < 800; ++i) text += "abcde";
    use_text("bert-tiny", text);
    config_.epochs = 4;
    config_.lr = 0.001;
  }
};

TEST_F(MaskedLanguageModelRun, LearnsToNameWhatIsHidden) {
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto result = summary("a");
  EXPECT_GT(result["test_accuracy"], 0.9) << "1/5 by how often each letter comes";
  EXPECT_NEAR(result["test_perplexity"].get<double>(), std::exp(result["test_loss"].get<double>()), 1e-9);
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(checkpoint.data.classes, 257) << "bytes and the mask";
  const auto model = restore_model(checkpoint, "a");
  const MaskedLanguageModelling task(config_);
  const MetricsSum sum = test_model(*model, {}, task, 5, [](int64_t) { return true; });
  EXPECT_EQ(sum.count, task.test_count());
  EXPECT_NEAR(sum.mean_loss(), result["test_loss"], 1e-5) << "whatever the batch";
}

TEST_F(MaskedLanguageModelRun, StoppedAnywhereItGoesOnToTheSameNumbers) {
  config_.max_steps = 12;
  train("whole");
  for (const int64_t stop : {1, 7, 12}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(MaskedLanguageModelRun, AMaskOfTheTokenizerIsTaken) {
  config_.tokenizer = ATHANOR_SOURCE_DIR "/tests/formats/data/tokenizer.json";
  const auto own = read_tokenizer(config_.tokenizer);
  const MaskedLanguageModelling task(config_);
  EXPECT_EQ(task.spec().classes, own->vocabulary() + 1) << "it has none";
}

TEST_F(MaskedLanguageModelRun, LearnsWordPieces) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "The lazy brown dog. ";  // windows start at each of its positions
  write_file_atomically(config_.data, text);
  config_.tokenizer = ATHANOR_SOURCE_DIR "/tests/formats/data/wordpiece_vocab.txt";
  config_.epochs = 2;
  train("a");
  const auto own = read_tokenizer(config_.tokenizer);
  const MaskedLanguageModelling task(config_);
  EXPECT_EQ(task.spec().classes, own->vocabulary()) << "it has a mask";
  EXPECT_GT(summary("a")["test_accuracy"], 0.3) << "1/7 by chance";
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(parse_tokenizer(checkpoint.tokenizer, "a")->encode("Lazy foxes"), own->encode("Lazy foxes"));
}

TEST_F(MaskedLanguageModelRun, WhatMakesNoSenseIsExplained) {
  config_.sample = 5;
  expect_error(ErrorCode::usage, {"bert-tiny", "gpt2-nano"}, [&] { train("a"); });
  config_.sample = 0;
  config_.context = 3'000;
  expect_error(ErrorCode::usage, {"text.txt", "--context"}, [&] { train("a"); });
}

}  // namespace
}  // namespace athanor
