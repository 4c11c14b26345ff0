// Text from a language model.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/nn/module.h"

namespace athanor {

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 1;  // logits are divided by it; 0: always the most likely token
  int64_t top_k = 0;       // draws only from this many most likely tokens; 0: from all
  uint64_t seed = 0;
};

/// Draws a token: the first at which the sum of probabilities, in the order of tokens, exceeds `uniform`,
/// which is in [0, 1).
int32_t draw_token(std::span<const float> logits, const SampleOptions& options, double uniform);

/// Continues a text, token by token, and passes each to `on_token`, which says whether to continue. The model
/// is in evaluation mode meanwhile and sees the last `context` tokens. Random numbers depend only on the
/// seed; default_generator() is not used.
///
/// Throws Error(value) for an empty prompt, and for options out of range.
void sample_text(nn::Module& model, Device device, int64_t context, std::vector<int32_t> prompt,
                 const SampleOptions& options, const std::function<bool(int32_t token)>& on_token);

/// Text of a model for a terminal: control characters other than ends of lines and tabs, which could change
/// the terminal's state, are shown as U+FFFD.
std::string without_controls(std::string_view text);

}  // namespace athanor
