// Language modelling: the task of predicting the next token of a text.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "athanor/data/text.h"
#include "athanor/train/task.h"

namespace athanor {

/// Cross-entropy of the model's logits [N, T, V] for tokens i64[N, T].
Forward name_tokens(nn::Module& model, const Tensor& tokens, const Tensor& targets);

/// Bits for each byte of text, and perplexity: exp of the loss, which is a mean over tokens.
class TextScoring final : public Scoring {
 public:
  /// `context`: tokens in one example.
  TextScoring(double bytes_per_token, int64_t context)
      : bytes_per_token_(bytes_per_token), context_(context) {}
  Unit unit() const override;
  std::vector<Measure> measures(double mean_loss, double accuracy) const override;
  std::string bar(double mean_loss, double accuracy) const override;
  ResultText in_words(double mean_loss, double accuracy, int64_t count) const override;
  double score(double mean_loss, double /*accuracy*/, const TestMeasures& /*more*/) const override {
    return -mean_loss;
  }
  std::string use() const override { return "sample --prompt TEXT"; }

 private:
  double bits_per_byte(double mean_loss) const;
  double bytes_per_token_;
  int64_t context_;
};

struct LanguageModellingOptions {
  std::shared_ptr<const Tokenizer> tokenizer = byte_tokenizer();
  std::shared_ptr<const SplitText> text;  // none: the model is only planned
  int64_t vocabulary = 0;                 // of the model; 0: the tokenizer's, and the mask if there is one
  WindowOptions windows = {};
  int64_t most_test_windows = 0;  // 0: all
  std::function<std::unique_ptr<nn::Module>(const ExampleSpec&)> model = {};
};

/// The text of `--data` by the tokenizer of `--tokenizer`, and the model of `--model`. Throws what reading
/// them throws.
LanguageModellingOptions text_options_of(const TrainConfig& config);
LanguageModellingOptions options_without_text(const TrainConfig& config);

/// What tasks on a text share: windows of its tokens, and a model that predicts tokens.
class TextTask : public Task {
 public:
  const ExampleSpec& spec() const override { return spec_; }
  std::string tokenizer() const override { return options_.tokenizer->source(); }
  std::string describe() const override;
  std::unique_ptr<nn::Module> make_model() const override { return options_.model(spec_); }
  Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const override {
    return name_tokens(model, inputs, targets);
  }
  TensorType input_type(int64_t batch_size) const override;
  TensorType target_type(int64_t batch_size) const override { return input_type(batch_size); }

 protected:
  /// `classes`: the size of the model's vocabulary.
  TextTask(LanguageModellingOptions options, int64_t classes);
  std::shared_ptr<const TokenText> part(const TokenText& text) const { return {options_.text, &text}; }

  LanguageModellingOptions options_;
  ExampleSpec spec_;
};

/// Makes batches of the text of `--data`. Throws Error(usage) if it is too short for them.
void check_text_is_long_enough(const TrainConfig& config, const std::function<void()>& make_batches);

class LanguageModelling final : public TextTask {
 public:
  explicit LanguageModelling(const LanguageModellingOptions& options);
  /// The text of `--data` by the tokenizer of `--tokenizer`, and the model of `--model`. Throws what reading
  /// them throws, and Error(usage) for a text that is too short.
  explicit LanguageModelling(const TrainConfig& config);

  std::shared_ptr<const Scoring> scoring() const override;
  std::unique_ptr<Batches> training_batches() const override;
  std::unique_ptr<Batches> test_batches(int64_t batch_size) const override;
  int64_t test_count() const override;
  /// Continues the beginning of the text that is held back.
  std::string sample(nn::Module& model, Device device, int64_t tokens, uint64_t seed) const override;
};

}  // namespace athanor
