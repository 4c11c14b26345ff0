// Masked language modelling: the task of predicting masked tokens of a text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/masked_text.h"
#include "athanor/train/language_modelling.h"

namespace athanor {

/// The share of hidden tokens that are predicted, and perplexity over the hidden tokens.
class MaskedTextScoring final : public Scoring {
 public:
  /// `context`: tokens in one example.
  explicit MaskedTextScoring(int64_t context) : context_(context) {}
  Unit unit() const override;
  std::vector<Measure> measures(double mean_loss, double accuracy) const override;
  std::string bar(double mean_loss, double accuracy) const override;
  ResultText in_words(double mean_loss, double accuracy, int64_t count) const override;
  double score(double mean_loss, double /*accuracy*/, const TestMeasures& /*more*/) const override {
    return -mean_loss;
  }
  std::string use() const override { return "eval --data FILE.txt"; }

 private:
  int64_t context_;
};

/// The mask is the tokenizer's [MASK] or <mask> if it has one, otherwise a new token after all others.
class MaskedLanguageModelling final : public TextTask {
 public:
  explicit MaskedLanguageModelling(const LanguageModellingOptions& options);
  /// As LanguageModelling. Throws Error(usage) for a text that is too short.
  explicit MaskedLanguageModelling(const TrainConfig& config);

  std::string describe() const override;
  std::shared_ptr<const Scoring> scoring() const override {
    return std::make_shared<MaskedTextScoring>(options_.windows.context);
  }
  std::unique_ptr<Batches> training_batches() const override;
  std::unique_ptr<Batches> test_batches(int64_t batch_size) const override;
  int64_t test_count() const override;

 private:
  MaskedLanguageModelling(const LanguageModellingOptions& options, const Masking& masking);
  MaskedTextTestBatches tests(int64_t batch_size) const;

  Masking masking_;
};

}  // namespace athanor
