#include "athanor/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/philox.h"
#include "athanor/data/shuffle.h"
#include "athanor/formats/crc32.h"

namespace athanor {
namespace {

constexpr int64_t no_target = -100;

void check_context(int64_t context) {
  if (context < 1) throw Error(ErrorCode::value, fmt::format("windows of {} tokens", context));
}

/// A random number in [0, below) that depends on seed and pass. The stream is not that of shuffled_order().
int64_t drawn(uint64_t seed, uint64_t pass, int64_t below) {
  const auto [low, high] = words_of(pass);
  const auto words = philox4x32({low, high, 0x7478U, 1}, words_of(seed));
  const uint64_t number = (uint64_t{words[0]} << 32) | words[1];
  return static_cast<int64_t>(number % static_cast<uint64_t>(below));
}

}  // namespace

SplitText read_text(const std::filesystem::path& path, const Tokenizer& tokenizer, double held_back) {
  const std::string text = read_text_file(path);
  if (text.empty())
    throw Error(ErrorCode::value, "the text file is empty", path.string(), "Give one with text in it");
  auto cut = static_cast<size_t>(static_cast<double>(text.size()) * (1 - held_back));
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) ++cut;
  const auto part = [&](std::string_view chosen) {
    return TokenText{tokenizer.encode(chosen), static_cast<int64_t>(chosen.size())};
  };
  const std::string_view whole = text;
  return {part(whole.substr(0, cut)), part(whole.substr(cut)), crc32_text(crc32_of({bytes_of(text)}))};
}

TextBatches::TextBatches(std::shared_ptr<const TokenText> text, const WindowOptions& options)
    : text_(std::move(text)), options_(options) {
  check_context(options.context);
  const auto tokens = static_cast<int64_t>(text_->tokens.size());
  if (tokens <= options.context)
    throw Error(ErrorCode::value,
                fmt::format("the text to train on has {} tokens, and a window takes {} and the one after it",
                            tokens, options.context),
                {}, "Take a shorter --context, or more text");
  windows_ = std::max<int64_t>(1, tokens / options.context - 1);
  const int64_t wanted = std::max<int64_t>(1, options.least_batches) * options.batch_size;
  passes_ = std::max<int64_t>(1, (wanted + windows_ - 1) / windows_);
  batches_ = passes_ * windows_ / options.batch_size;
}

std::vector<int64_t> TextBatches::starts_of(int64_t epoch) const {
  const auto tokens = static_cast<int64_t>(text_->tokens.size());
  const int64_t places = std::min(options_.context, tokens - windows_ * options_.context);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < passes_; ++i) {
    const auto pass = static_cast<uint64_t>(epoch * passes_ + i);
    const int64_t first = drawn(options_.seed, pass, places);
    for (const int64_t window : shuffled_order(windows_, options_.seed, pass))
      starts.push_back(first + window * options_.context);
  }
  return starts;
}

std::optional<Batch> TextBatches::next() {
  if (state_.next_batch == batches_) {
    state_ = {state_.epoch + 1, 0};
    return std::nullopt;
  }
  if (std::exchange(known_epoch_, state_.epoch) != state_.epoch) starts_ = starts_of(state_.epoch);
  const Shape shape{options_.batch_size, options_.context};
  Batch batch{HostArray(DType::i64, shape), HostArray(DType::i64, shape)};
  auto input = batch.inputs.as<int64_t>().begin(), label = batch.labels.as<int64_t>().begin();
  for (int64_t i = 0; i < options_.batch_size; ++i) {
    const int64_t start = starts_[static_cast<size_t>(state_.next_batch * options_.batch_size + i)];
    const auto* token = text_->tokens.data() + start;
    input = std::copy(token, token + options_.context, input);
    label = std::copy(token + 1, token + 1 + options_.context, label);
  }
  ++state_.next_batch;
  return batch;
}

void TextBatches::restore(const LoaderState& state) {
  check_position(state, batches_);
  state_ = state;
}

TextTestBatches::TextTestBatches(std::shared_ptr<const TokenText> text, int64_t context, int64_t batch_size,
                                 int64_t most_windows)
    : text_(std::move(text)), context_(context) {
  check_context(context);
  const auto targets = static_cast<int64_t>(text_->tokens.size()) - 1;
  if (targets < 1)
    throw Error(ErrorCode::value, fmt::format("the text to test on has {} tokens", targets + 1), {},
                "Hold more of the text back with --validation, or take more text");
  windows_ = (targets + context - 1) / context;
  if (most_windows > 0) windows_ = std::min(windows_, most_windows);
  batch_size_ = std::min(batch_size, windows_);
}

int64_t TextTestBatches::count() const {
  return std::min(static_cast<int64_t>(text_->tokens.size()) - 1, windows_ * context_);
}

int64_t TextTestBatches::batches() const { return (windows_ + batch_size_ - 1) / batch_size_; }

std::optional<Batch> TextTestBatches::next() {
  if (state_.next_batch == batches()) {
    state_ = {state_.epoch + 1, 0};
    return std::nullopt;
  }
  const Shape shape{batch_size_, context_};
  Batch batch{HostArray(DType::i64, shape), HostArray(DType::i64, shape)};
  const auto inputs = batch.inputs.as<int64_t>(), labels = batch.labels.as<int64_t>();
  std::ranges::fill(labels, no_target);
  const int64_t first = state_.next_batch * batch_size_ * context_;
  const int64_t filled = std::min(batch_size_ * context_, count() - first);
  const auto* token = text_->tokens.data() + first;
  std::copy(token, token + filled, inputs.begin());
  std::copy(token + 1, token + 1 + filled, labels.begin());
  ++state_.next_batch;
  return batch;
}

void TextTestBatches::restore(const LoaderState& state) {
  check_position(state, batches());
  state_ = state;
}

}  // namespace athanor
