// Text for language models: read, cut into a part to train on and one to test on, and into windows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/batches.h"
#include "athanor/formats/tokenizer.h"

namespace athanor {

/// A text as tokens.
struct TokenText {
  std::vector<int32_t> tokens;
  int64_t bytes = 0;  // of the text that the tokens encode
};

/// A text in two parts, the second of which is held back.
struct SplitText {
  TokenText train, test;
  std::string fingerprint;  // differs if the text differs
};

/// Reads a text file; its last `held_back` share (in [0, 1), by bytes, between two characters) is the part to
/// test on. Throws Error(io), and Error(value) for an empty file.
SplitText read_text(const std::filesystem::path& path, const Tokenizer& tokenizer, double held_back);

struct WindowOptions {
  int64_t context = 128;  // tokens of a window
  int64_t batch_size = 32;
  uint64_t seed = 0;
  int64_t least_batches = 100;  // of an epoch
};

/// Windows to train on, as batches: tokens i64[B, T], and the token after each, i64[B, T].
///
/// A pass goes through the text once, in windows of `context` tokens one after the other, in random order;
/// the token at which the first begins is random in each pass. An epoch is one pass, or as many as make
/// `least_batches`. Everything depends only on text, options and the epoch's number.
class TextBatches final : public Batches {
 public:
  /// Throws Error(value) if the text is shorter than a window and a token.
  TextBatches(std::shared_ptr<const TokenText> text, const WindowOptions& options);
  std::optional<Batch> next() override;
  int64_t batches() const override { return batches_; }
  LoaderState state() const override { return state_; }
  void restore(const LoaderState& state) override;

 private:
  /// Where the windows of an epoch begin, in their order.
  std::vector<int64_t> starts_of(int64_t epoch) const;

  std::shared_ptr<const TokenText> text_;
  WindowOptions options_;
  int64_t windows_, passes_ = 1, batches_;  // in a pass; in an epoch
  LoaderState state_;
  int64_t known_epoch_ = -1;
  std::vector<int64_t> starts_;  // of that epoch
};

/// Windows to test on: every token but the first is a target once. Tokens that fill up the last window and
/// the last batch do not count.
class TextTestBatches final : public Batches {
 public:
  /// `most_windows`: only this many first windows; 0: all. Throws Error(value) for fewer than two tokens.
  TextTestBatches(std::shared_ptr<const TokenText> text, int64_t context, int64_t batch_size,
                  int64_t most_windows = 0);
  std::optional<Batch> next() override;
  int64_t batches() const override;
  LoaderState state() const override { return state_; }
  void restore(const LoaderState& state) override;
  /// The number of targets that count.
  int64_t count() const;

 private:
  std::shared_ptr<const TokenText> text_;
  int64_t context_, windows_, batch_size_;
  LoaderState state_;
};

}  // namespace athanor
