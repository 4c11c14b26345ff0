#include "athanor/data/masked_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "athanor/base/error.h"

namespace athanor {
namespace {

constexpr int64_t not_to_be_named = -100;
constexpr uint32_t for_training = 17, for_testing = 18;  // purposes of random numbers

/// One window of a batch.
std::span<int64_t> window_of(HostArray& batch, int64_t window) {
  const auto size = static_cast<size_t>(batch.shape[1]);
  return batch.as<int64_t>().subspan(static_cast<size_t>(window) * size, size);
}

}  // namespace

int64_t hidden_in(int64_t window, const Masking& masking) {
  return std::max<int64_t>(1, std::llround(masking.share * static_cast<double>(window)));
}

void hide_tokens(std::span<int64_t> tokens, std::span<int64_t> targets, const Masking& masking,
                 RandomStream& random) {
  constexpr double mask_below = 0.8, random_below = 0.9;
  const auto window = static_cast<int64_t>(tokens.size());
  std::ranges::fill(targets, not_to_be_named);
  std::vector<size_t> places(tokens.size());
  std::iota(places.begin(), places.end(), size_t{0});
  for (int64_t i = 0; i < hidden_in(window, masking); ++i) {
    std::swap(places[static_cast<size_t>(i)], places[static_cast<size_t>(i + random.below(window - i))]);
    const size_t place = places[static_cast<size_t>(i)];
    targets[place] = tokens[place];
    const double chance = random.uniform();
    if (chance < mask_below)
      tokens[place] = masking.mask;
    else if (chance < random_below)
      tokens[place] = random.below(masking.vocabulary);
  }
}

std::optional<Batch> MaskedTextBatches::next() {
  const LoaderState before = windows_.state();
  std::optional<Batch> batch = windows_.next();
  if (!batch) return batch;
  const int64_t size = batch->inputs.shape[0];
  for (int64_t i = 0; i < size; ++i) {
    RandomStream random(masking_.seed, static_cast<uint64_t>(before.epoch),
                        static_cast<uint64_t>(before.next_batch * size + i), for_training);
    hide_tokens(window_of(batch->inputs, i), window_of(batch->labels, i), masking_, random);
  }
  return batch;
}

MaskedTextTestBatches::MaskedTextTestBatches(std::shared_ptr<const TokenText> text, int64_t context,
                                             int64_t batch_size, const Masking& masking, int64_t most_windows)
    : text_(std::move(text)), masking_(masking), context_(context) {
  const auto tokens = static_cast<int64_t>(text_->tokens.size());
  windows_ = context > 0 ? tokens / context : 0;
  if (windows_ < 1)
    throw Error(ErrorCode::value,
                fmt::format("the text to test on has {} tokens, and a window takes {}", tokens, context), {},
                "Hold more of the text back with --validation, or take a shorter --context");
  if (most_windows > 0) windows_ = std::min(windows_, most_windows);
  batch_size_ = std::min(batch_size, windows_);
}

std::optional<Batch> MaskedTextTestBatches::next() {
  if (state_.next_batch == batches()) {
    state_ = {state_.epoch + 1, 0};
    return std::nullopt;
  }
  const Shape shape{batch_size_, context_};
  Batch batch{HostArray(DType::i64, shape), HostArray(DType::i64, shape)};
  std::ranges::fill(batch.labels.as<int64_t>(), not_to_be_named);
  for (int64_t i = 0; i < batch_size_; ++i) {
    const int64_t window = state_.next_batch * batch_size_ + i;
    if (window >= windows_) break;
    const auto tokens = window_of(batch.inputs, i);
    std::copy_n(text_->tokens.begin() + window * context_, context_, tokens.begin());
    RandomStream random(masking_.seed, 0, static_cast<uint64_t>(window), for_testing);
    hide_tokens(tokens, window_of(batch.labels, i), masking_, random);
  }
  ++state_.next_batch;
  return batch;
}

void MaskedTextTestBatches::restore(const LoaderState& state) {
  check_position(state, batches());
  state_ = state;
}

}  // namespace athanor
