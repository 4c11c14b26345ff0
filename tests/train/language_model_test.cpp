// Runs of language models on a short text.
#include "athanor/train/language_modelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "athanor/nn/models.h"
#include "athanor/train/sampling.h"
#include "athanor/train/test_set.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class LanguageModelRun : public testing::TrainerTest {
 protected:
  LanguageModelRun() { use_text("gpt2-nano", testing::repeating_text("abcabd")); }
};

TEST_F(LanguageModelRun, LearnsAText) {
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto result = summary("a");
  EXPECT_GE(result["steps"], 100);
  EXPECT_LT(result["test_bits_per_byte"], 2) << "8 before it learns, 3.1 by how often each byte comes";
  EXPECT_NEAR(result["test_perplexity"].get<double>(), std::exp(result["test_loss"].get<double>()), 1e-9);
  EXPECT_NEAR(result["test_bits_per_byte"].get<double>(), result["test_loss"].get<double>() / std::log(2),
              1e-9);
  EXPECT_GT(result["tokens_per_second"], 0);
  EXPECT_FALSE(result.contains("images_per_second"));
}

TEST_F(LanguageModelRun, StoppedAnywhereItGoesOnToTheSameNumbers) {
  train("whole");
  for (const int64_t stop : {1, 37, 99}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  config_.max_steps = 0;
  config_.sample = 5;  // may be changed, and does not change the numbers
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  EXPECT_EQ(summary("parts")["test_loss"], summary("whole")["test_loss"]);
}

TEST_F(LanguageModelRun, AnotherTextIsRefusedOnResuming) {
  config_.max_steps = 2;
  train("a");
  std::string text = read_text_file(folder_ / "text.txt");
  text[0] = 'x';
  write_file_atomically(folder_ / "text.txt", text);
  config_.max_steps = 3;
  expect_error(ErrorCode::value, {"not those", "text.txt"}, [&] { train("a", true); });
}

TEST_F(LanguageModelRun, ACheckpointIsEnoughToUseIt) {
  config_.epochs = 3;
  train("a");
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  const auto model = restore_model(checkpoint, "a");
  const LanguageModelling task(config_);
  const MetricsSum sum = test_model(*model, {}, task, 5, [](int64_t) { return true; });
  EXPECT_EQ(sum.count, task.test_count());
  EXPECT_NEAR(sum.mean_loss(), summary("a")["test_loss"], 1e-5) << "whatever the batch";
  std::string text;
  sample_text(*model, {}, 16, byte_tokenizer()->encode("abcabd, 3\nabc"), {.tokens = 4, .temperature = 0},
              [&](int32_t token) {
                text += static_cast<char>(token);
                return true;
              });
  EXPECT_EQ(text, "abd,");
}

TEST_F(LanguageModelRun, ATokenizerGoesIntoTheCheckpoint) {
  config_.tokenizer = ATHANOR_SOURCE_DIR "/tests/formats/data/tokenizer.json";
  config_.max_steps = 2;
  train("a");
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(checkpoint.tokenizer, read_text_file(config_.tokenizer));
  EXPECT_EQ(checkpoint.data.classes, 420);
  const auto result = summary("a");
  const TokenText test = read_text(config_.data, *read_tokenizer(config_.tokenizer), 0.1).test;
  const double bytes_per_token = static_cast<double>(test.bytes) / static_cast<double>(test.tokens.size());
  EXPECT_NEAR(result["test_bits_per_byte"].get<double>(),
              result["test_loss"].get<double>() / std::log(2) / bytes_per_token, 1e-9);
}

TEST_F(LanguageModelRun, BadDataIsExplained) {
  config_.data = folder_.path().string();
  expect_error(ErrorCode::usage, {"text file", "--data FILE.txt"}, [&] { train("a"); });
  config_.data = (folder_ / "text.txt").string();
  config_.context = 100'000;
  expect_error(ErrorCode::usage, {"tokens", "text.txt", "--context"}, [&] { train("a"); });
  config_ = TrainConfig();
  config_.data = (folder_ / "text.txt").string();
  expect_error(ErrorCode::usage, {"cnn", "text", "gpt2-nano"}, [&] { train("a"); });
}

TEST(Sampling, DrawsByProbability) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.2F), std::log(0.3F)};
  std::map<int32_t, int> drawn;
  for (int i = 0; i < 1000; ++i) ++drawn[draw_token(logits, {}, (i + 0.5) / 1000)];
  EXPECT_EQ(drawn, (std::map<int32_t, int>{{0, 500}, {1, 200}, {2, 300}}));
  drawn.clear();
  for (int i = 0; i < 1000; ++i) ++drawn[draw_token(logits, {.top_k = 2}, (i + 0.5) / 1000)];
  EXPECT_EQ(drawn, (std::map<int32_t, int>{{0, 625}, {2, 375}}));
  drawn.clear();
  for (int i = 0; i < 1000; ++i) ++drawn[draw_token(logits, {.temperature = 0.5}, (i + 0.5) / 1000)];
  EXPECT_EQ(drawn[0], 658) << "0.25 / 0.38";
  EXPECT_EQ(draw_token(logits, {.temperature = 0}, 0.99), 0);
}

TEST(Sampling, SeesTheLastTokensOfTheContext) {
  manual_seed(3);
  const auto model = nn::make_model("gpt2-nano", {24}, 50);
  std::vector<int32_t> text{7, 3, 9};
  const auto next = [&] {  // the whole model, on only the tokens that it may see
    const NoGrad no_history;
    const size_t count = std::min<size_t>(24, text.size());
    const std::vector<int64_t> seen(text.end() - static_cast<std::ptrdiff_t>(count), text.end());
    const auto logits = (*model)(Tensor::from(seen, {1, static_cast<int64_t>(count)})).to_vector<float>();
    return draw_token(std::span(logits).last(50), {.temperature = 0}, 0);
  };
  std::vector<int32_t> written;
  sample_text(*model, {}, 24, text, {.tokens = 30, .temperature = 0}, [&](int32_t token) {
    written.push_back(token);
    return true;
  });
  for (const int32_t token : written) {
    EXPECT_EQ(token, next());
    text.push_back(token);
  }
  EXPECT_TRUE(model->training());
}

TEST(Sampling, ShowsNoControlCharacters) {
  EXPECT_EQ(without_controls("a\tb\n\x1b[31m\x7f"), "a\tb\n\xEF\xBF\xBD[31m\xEF\xBF\xBD");
}

TEST(LanguageModels, HaveTheParametersOfGpt2) {
  EXPECT_EQ(nn::make_model("gpt2-small", {1024}, 50257)->parameter_count(), 124439808);
  EXPECT_EQ(nn::make_model("gpt2-nano", {1024}, 50257)->parameter_count(),
            (50257 + 1024) * 48 + 3 * (12 * 48 * 48 + 13 * 48) + 2 * 48);
  EXPECT_EQ(nn::default_context("gpt2-small"), 1024);
  EXPECT_FALSE(nn::is_language_model("cnn"));
  EXPECT_TRUE(nn::is_language_model("gpt2-mini"));
}

}  // namespace
}  // namespace athanor
