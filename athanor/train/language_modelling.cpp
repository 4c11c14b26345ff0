#include "athanor/train/language_modelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/nn/models.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"
#include "athanor/train/sampling.h"

namespace athanor {

LanguageModellingOptions text_options_of(const TrainConfig& config) {
  LanguageModellingOptions options = options_without_text(config);
  options.text =
      std::make_shared<const SplitText>(read_text(config.data, *options.tokenizer, config.validation));
  return options;
}

LanguageModellingOptions options_without_text(const TrainConfig& config) {
  LanguageModellingOptions options;
  if (!config.tokenizer.empty()) options.tokenizer = read_tokenizer(config.tokenizer);
  options.windows = {.context = config.context > 0 ? config.context : nn::default_context(config.model),
                     .batch_size = config.batch_size,
                     .seed = config.seed};
  options.most_test_windows = config.eval_examples;
  options.model = [name = config.model](const ExampleSpec& spec) {
    return nn::make_model(name, spec.input, spec.classes);
  };
  return options;
}

// The logits' handle ends here, so that they need not live longer than the plan.
Forward name_tokens(nn::Module& model, const Tensor& tokens, const Tensor& targets) {
  const Tensor all = model(tokens);
  const int64_t count = targets.size();
  const Tensor logits = reshape(all, {count, all.size(-1)}), labels = reshape(targets, {count});
  return {cross_entropy(logits, labels, {.ignore_index = ignored_target}),
          sum(equal(argmax(logits.detach(), 1), labels))};
}

Unit TextScoring::unit() const {
  return {.one = "token",
          .many = "tokens",
          .rate = "tokens/s",
          .rate_field = "tokens_per_second",
          .rated = "tokens",
          .in_example = context_};
}

double TextScoring::bits_per_byte(double mean_loss) const {
  return mean_loss / std::numbers::ln2 / bytes_per_token_;
}

std::vector<Measure> TextScoring::measures(double mean_loss, double /*accuracy*/) const {
  const double bits = bits_per_byte(mean_loss), perplexity = std::exp(mean_loss);
  return {{"bits_per_byte", bits, fmt::format("{:.3f} bits per byte", bits)},
          {"perplexity", perplexity, fmt::format("perplexity {:.2f}", perplexity)}};
}

std::string TextScoring::bar(double mean_loss, double /*accuracy*/) const {
  return fmt::format("{:.3f} bits/byte", bits_per_byte(mean_loss));
}

ResultText TextScoring::in_words(double mean_loss, double accuracy, int64_t count) const {
  const auto found = measures(mean_loss, accuracy);
  return {found[0].text, fmt::format(", {}, over {} tokens of test text", found[1].text, grouped(count))};
}

void check_text_is_long_enough(const TrainConfig& config, const std::function<void()>& make_batches) {
  try {
    make_batches();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::value) throw;
    throw Error(ErrorCode::usage, error.problem(), config.data, error.hint());
  }
}

TextTask::TextTask(LanguageModellingOptions options, int64_t classes) : options_(std::move(options)) {
  spec_ = {.input = {options_.windows.context},
           .classes = classes,
           .class_names = {},
           .normalization = {{0}, {1}},
           .columns = {},
           .fingerprint = options_.text ? options_.text->fingerprint : ""};
}

std::string TextTask::describe() const {
  const SplitText& text = *options_.text;
  return fmt::format("{} training and {} test tokens ({}), windows of {}",
                     grouped(std::ssize(text.train.tokens)), grouped(std::ssize(text.test.tokens)),
                     options_.tokenizer->describe(), options_.windows.context);
}

TensorType TextTask::input_type(int64_t batch_size) const {
  return {DType::i64, {batch_size, options_.windows.context}, {}};
}

LanguageModelling::LanguageModelling(const LanguageModellingOptions& options)
    : TextTask(options, options.vocabulary > 0 ? options.vocabulary : options.tokenizer->vocabulary()) {}

LanguageModelling::LanguageModelling(const TrainConfig& config) : LanguageModelling(text_options_of(config)) {
  check_text_is_long_enough(config, [&] {
    (void)training_batches();
    (void)test_batches(config.batch_size);
  });
}

std::shared_ptr<const Scoring> LanguageModelling::scoring() const {
  const TokenText& test = options_.text->test;
  const double bytes =
      static_cast<double>(test.bytes) / static_cast<double>(std::max<int64_t>(1, std::ssize(test.tokens)));
  return std::make_shared<TextScoring>(bytes, options_.windows.context);
}

std::unique_ptr<Batches> LanguageModelling::training_batches() const {
  return std::make_unique<TextBatches>(part(options_.text->train), options_.windows);
}

std::unique_ptr<Batches> LanguageModelling::test_batches(int64_t batch_size) const {
  return std::make_unique<TextTestBatches>(part(options_.text->test), options_.windows.context, batch_size,
                                           options_.most_test_windows);
}

int64_t LanguageModelling::test_count() const {
  return TextTestBatches(part(options_.text->test), options_.windows.context, 1, options_.most_test_windows)
      .count();
}

std::string LanguageModelling::sample(nn::Module& model, Device device, int64_t tokens, uint64_t seed) const {
  const auto& held_back = options_.text->test.tokens;
  constexpr int64_t most = 32;
  const int64_t given = std::min<int64_t>({most, options_.windows.context, std::ssize(held_back)});
  std::vector<int32_t> prompt(held_back.begin(), held_back.begin() + given), written;
  sample_text(model, device, options_.windows.context, prompt, {.tokens = tokens, .seed = seed},
              [&](int32_t token) {
                written.push_back(token);
                return true;
              });
  return options_.tokenizer->decode(written);
}

}  // namespace athanor
