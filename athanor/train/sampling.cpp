#include "athanor/train/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/philox.h"
#include "athanor/compile/options.h"
#include "athanor/ops/indexing.h"
#include "athanor/train/evaluation_mode.h"

namespace athanor {
namespace {

constexpr int64_t shortest_input = 16;

/// Inputs are filled up to powers of two, so that a text that grows needs few plans. In a causal model, later
/// tokens do not change the logits of earlier ones.
int64_t input_length(int64_t tokens, int64_t context) {
  int64_t length = shortest_input;
  while (length < tokens) length *= 2;
  return std::min(length, context);
}

/// The logits of the token that follows.
std::vector<float> next_logits(nn::Module& model, Device device, int64_t context,
                               std::span<const int32_t> tokens) {
  const NoGrad no_history;
  const auto count = std::min(std::ssize(tokens), static_cast<std::ptrdiff_t>(context));
  HostArray input(DType::i64, {1, input_length(count, context)});
  std::ranges::copy(tokens.last(static_cast<size_t>(count)), input.as<int64_t>().begin());
  const Tensor last = Tensor::scalar(static_cast<int64_t>(count - 1), DType::i64, device);
  return take(model(Tensor::from(input, device)), last, 1).to_vector<float>();
}

}  // namespace

int32_t draw_token(std::span<const float> logits, const SampleOptions& options, double uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  const int32_t best = *std::ranges::max_element(order, {}, logit);
  if (options.temperature == 0) return best;
  if (options.top_k > 0 && options.top_k < std::ssize(order)) {
    std::ranges::stable_sort(order, std::ranges::greater(), logit);
    order.resize(static_cast<size_t>(options.top_k));
    std::ranges::sort(order);
  }
  const auto weight = [&](int32_t token) {
    return std::exp((static_cast<double>(logit(token)) - static_cast<double>(logit(best))) /
                    options.temperature);
  };
  double all = 0;
  for (const int32_t token : order) all += weight(token);
  double left = uniform * all;
  for (const int32_t token : order)
    if ((left -= weight(token)) < 0) return token;
  return best;  // rounding
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F)
      shown += "\xEF\xBF\xBD";
    else
      shown += c;
  }
  return shown;
}

void sample_text(nn::Module& model, Device device, int64_t context, std::vector<int32_t> prompt,
                 const SampleOptions& options, const std::function<bool(int32_t token)>& on_token) {
  if (prompt.empty()) throw Error(ErrorCode::value, "the text to continue has no token");
  if (!(options.temperature >= 0) || options.top_k < 0)
    throw Error(ErrorCode::value, fmt::format("sampling with temperature {} from the {} most likely",
                                              options.temperature, options.top_k));
  const EvaluationMode mode(model);
  const ScopedDisable untuned("tune");  // a few tokens are not worth timing kernels
  for (int64_t i = 0; i < options.tokens; ++i) {
    throw_if_interrupted();
    const auto words = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, words_of(options.seed));
    const double uniform = static_cast<double>(words[0]) / 4294967296.0;
    prompt.push_back(draw_token(next_logits(model, device, context, prompt), options, uniform));
    if (!on_token(prompt.back())) return;
  }
}

}  // namespace athanor
