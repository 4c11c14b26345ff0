#include "athanor/train/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "athanor/base/error.h"
#include "athanor/nn/models.h"
#include "athanor/train/classification.h"
#include "athanor/train/language_modelling.h"
#include "athanor/train/masked_language_modelling.h"

namespace athanor {

int64_t counted(const HostArray& targets) {
  if (targets.dtype != DType::i64) return targets.shape.rank() > 0 ? targets.shape[0] : 1;
  const auto labels = targets.as<int64_t>();
  return static_cast<int64_t>(labels.size()) - std::ranges::count(labels, ignored_target);
}

std::unique_ptr<const Task> open_task(const TrainConfig& config) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(config.data, ignored);
  if (nn::is_language_model(config.model)) {
    if (!is_file)
      throw Error(ErrorCode::usage,
                  fmt::format("{} learns from a text file, and '{}' is none", config.model, config.data),
                  "--data", "Give one: --data FILE.txt");
    if (nn::objective_of(config.model) == nn::Objective::masked_tokens)
      return std::make_unique<MaskedLanguageModelling>(config);
    return std::make_unique<LanguageModelling>(config);
  }
  if (is_file && std::filesystem::path(config.data).extension() == ".txt")
    throw Error(ErrorCode::usage, fmt::format("{} learns from pictures, and the data is text", config.model),
                "--data", "Models of text: --model gpt2-nano ... gpt2-small, bert-tiny ... bert-base");
  return std::make_unique<Classification>(config);
}

}  // namespace athanor
