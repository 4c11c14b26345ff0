// Text with masked tokens, for models that predict them.
#pragma once
#include <span>

#include "athanor/data/random_stream.h"
#include "athanor/data/text.h"

namespace athanor {

/// How tokens are masked, as for BERT (Devlin and others, 2019).
struct Masking {
  int64_t mask = 0;        // the mask token
  int64_t vocabulary = 0;  // tokens of the text are in [0, vocabulary)
  double share = 0.15;     // share of a window's tokens to predict: at least one token
  uint64_t seed = 0;
};

/// The number of tokens to predict in a window.
int64_t hidden_in(int64_t window, const Masking& masking);

/// Chooses the tokens to predict. Of these, 80 % become the mask token, 10 % a random token, and 10 % stay.
/// `targets` gets the tokens there, and -100 elsewhere.
void hide_tokens(std::span<int64_t> tokens, std::span<int64_t> targets, const Masking& masking,
                 RandomStream& random);

/// TextBatches with masked tokens: others in each epoch.
class MaskedTextBatches final : public Batches {
 public:
  MaskedTextBatches(std::shared_ptr<const TokenText> text, const WindowOptions& options,
                    const Masking& masking)
      : windows_(std::move(text), options), masking_(masking) {}
  std::optional<Batch> next() override;
  int64_t batches() const override { return windows_.batches(); }
  LoaderState state() const override { return windows_.state(); }
  void restore(const LoaderState& state) override { windows_.restore(state); }

 private:
  TextBatches windows_;
  Masking masking_;
};

/// Test windows, one after the other. Which tokens are masked depends only on the window and the seed. Text
/// after the last full window is left out. Examples that fill up the last batch do not count.
class MaskedTextTestBatches final : public Batches {
 public:
  /// `most_windows`: only this many first windows; 0: all. Throws Error(value) for less than a window.
  MaskedTextTestBatches(std::shared_ptr<const TokenText> text, int64_t context, int64_t batch_size,
                        const Masking& masking, int64_t most_windows = 0);
  std::optional<Batch> next() override;
  int64_t batches() const override { return (windows_ + batch_size_ - 1) / batch_size_; }
  LoaderState state() const override { return state_; }
  void restore(const LoaderState& state) override;
  /// The number of targets that count.
  int64_t count() const { return windows_ * hidden_in(context_, masking_); }

 private:
  std::shared_ptr<const TokenText> text_;
  Masking masking_;
  int64_t context_, windows_, batch_size_;
  LoaderState state_;
};

}  // namespace athanor
