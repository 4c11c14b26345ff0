#include "athanor/train/masked_language_modelling.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/base/error.h"

namespace athanor {
namespace {

Masking masking_of(const Tokenizer& tokenizer, uint64_t seed) {
  Masking masking{.mask = tokenizer.vocabulary(), .vocabulary = tokenizer.vocabulary(), .seed = seed};
  for (const char* name : {"[MASK]", "<mask>"})
    if (const auto tokens = tokenizer.encode(name); tokens.size() == 1) masking.mask = tokens.front();
  return masking;
}

}  // namespace

Unit MaskedTextScoring::unit() const {
  return {.one = "token",
          .many = "tokens",
          .rate = "tokens/s",
          .rate_field = "tokens_per_second",
          .rated = "tokens",
          .in_example = context_};
}

std::vector<Measure> MaskedTextScoring::measures(double mean_loss, double accuracy) const {
  const double perplexity = std::exp(mean_loss);
  return {{"accuracy", accuracy, fmt::format("accuracy {:.1f} %", 100 * accuracy)},
          {"perplexity", perplexity, fmt::format("perplexity {:.2f}", perplexity)}};
}

std::string MaskedTextScoring::bar(double /*mean_loss*/, double accuracy) const {
  return fmt::format("acc {:4.1f} %", 100 * accuracy);
}

ResultText MaskedTextScoring::in_words(double mean_loss, double accuracy, int64_t count) const {
  return {fmt::format("{:.1f} %", 100 * accuracy),
          fmt::format(" of {} hidden tokens of test text are right, perplexity {:.2f}", grouped(count),
                      std::exp(mean_loss))};
}

MaskedLanguageModelling::MaskedLanguageModelling(const TrainConfig& config)
    : MaskedLanguageModelling(text_options_of(config)) {
  check_text_is_long_enough(config, [&] {
    (void)training_batches();
    (void)tests(config.batch_size);
  });
}

MaskedLanguageModelling::MaskedLanguageModelling(const LanguageModellingOptions& options)
    : MaskedLanguageModelling(options, masking_of(*options.tokenizer, options.windows.seed)) {}

MaskedLanguageModelling::MaskedLanguageModelling(const LanguageModellingOptions& options,
                                                 const Masking& masking)
    : TextTask(options, options.vocabulary > 0
                            ? options.vocabulary
                            : masking.vocabulary + (masking.mask < masking.vocabulary ? 0 : 1)),
      masking_(masking) {}

std::string MaskedLanguageModelling::describe() const {
  return fmt::format("{} with {} hidden", TextTask::describe(),
                     hidden_in(options_.windows.context, masking_));
}

std::unique_ptr<Batches> MaskedLanguageModelling::training_batches() const {
  return std::make_unique<MaskedTextBatches>(part(options_.text->train), options_.windows, masking_);
}

MaskedTextTestBatches MaskedLanguageModelling::tests(int64_t batch_size) const {
  return {part(options_.text->test), options_.windows.context, batch_size, masking_,
          options_.most_test_windows};
}

std::unique_ptr<Batches> MaskedLanguageModelling::test_batches(int64_t batch_size) const {
  return std::make_unique<MaskedTextTestBatches>(tests(batch_size));
}

int64_t MaskedLanguageModelling::test_count() const { return tests(1).count(); }

}  // namespace athanor
