#include "athanor/train/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/models.h"
#include "athanor/train/classification.h"
#include "athanor/train/language_modelling.h"
#include "athanor/train/masked_language_modelling.h"
#include "athanor/train/regression.h"
#include "athanor/train/segmentation.h"

namespace athanor {

int64_t counted(const HostArray& targets) {
  if (targets.dtype != DType::i64) {
    const int64_t examples = targets.shape.rank() > 0 ? targets.shape[0] : 1;
    const auto numbers = targets.as<float>();
    const size_t width = numbers.size() / static_cast<size_t>(std::max<int64_t>(1, examples));
    int64_t ignored = 0;
    for (size_t i = 0; i < numbers.size(); i += width) ignored += numbers[i] >= ignored_number ? 1 : 0;
    return examples - ignored;
  }
  const auto labels = targets.as<int64_t>();
  return static_cast<int64_t>(labels.size()) - std::ranges::count(labels, ignored_target);
}

TaskKind task_kind(const TrainConfig& config) {
  if (config.task == "regression") return TaskKind::regression;
  if (config.task == "segmentation") return TaskKind::segmentation;
  switch (nn::objective_of(config.model)) {
    case nn::Objective::next_token:
      return TaskKind::next_token;
    case nn::Objective::masked_tokens:
      return TaskKind::masked_tokens;
    case nn::Objective::pixels:
      return TaskKind::segmentation;
    case nn::Objective::classes:
      break;
  }
  return TaskKind::classification;
}

void check_kind_of_data(const TrainConfig& config) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(config.data, ignored);
  const bool text = nn::is_language_model(config.model);
  if (text && !is_file) {
    const auto names = dataset_names();
    if (std::ranges::find(names, config.data) == names.end() &&
        !std::filesystem::is_directory(config.data, ignored))
      static_cast<void>(open_to_read(config.data));  // throws what is wrong with it
    throw Error(ErrorCode::usage,
                fmt::format("{} learns from a text file, and '{}' is not one", config.model, config.data),
                "--data", "Give one: --data FILE.txt");
  }
  if (!text && is_file && kind_of_data(config.data) == DataKind::text)
    throw Error(ErrorCode::usage,
                fmt::format("{} does not learn from text, and the data is text", config.model), "--data",
                "Models of text: --model gpt2-nano ... gpt2-small, bert-tiny ... bert-base");
}

namespace {

/// A classifier of one class learns nothing, and is always right.
void check_classes(const ExampleSpec& spec) {
  if (spec.classes > 1) return;
  throw Error(
      ErrorCode::value,
      spec.class_names.empty() ? "all examples are of one class"
                               : fmt::format("all examples are of one class, '{}'", spec.class_names[0]),
      "--data",
      "Add examples of another class (of images: a folder of each class, as train/CLASS/NAME.jpg), or "
      "predict numbers with --task regression");
}

}  // namespace

std::unique_ptr<const Task> open_task(TrainConfig& config) {
  check_kind_of_data(config);
  const auto options = [&](auto make, bool numbers) {
    const Splits splits = open_both_splits(config, {.numbers = numbers, .target = config.target});
    if (task_kind(config) == TaskKind::classification) check_classes(splits.first->spec());
    shrink_batch(config, splits.first->size());
    return make(config, splits);
  };
  switch (task_kind(config)) {
    case TaskKind::classification:
      return std::make_unique<Classification>(options(classification_options, false));
    case TaskKind::regression:
      return std::make_unique<Regression>(options(regression_options, true));
    case TaskKind::segmentation:
      return std::make_unique<Segmentation>(options(segmentation_options, false));
    case TaskKind::next_token:
      return std::make_unique<LanguageModelling>(config);
    case TaskKind::masked_tokens:
      return std::make_unique<MaskedLanguageModelling>(config);
  }
  return nullptr;
}

namespace {

class NoExamples final : public Dataset {
 public:
  explicit NoExamples(ExampleSpec spec) : spec_(std::move(spec)) {}
  int64_t size() const override { return 0; }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t /*index*/, float* /*image_out*/, int64_t& /*label_out*/) const override {
    throw Error(ErrorCode::usage, "there is no data");
  }

 private:
  ExampleSpec spec_;
};

}  // namespace

std::unique_ptr<const Task> task_without_data(const TrainConfig& config, const ExampleSpec& spec) {
  LanguageModellingOptions text;
  Splits splits;
  if (nn::is_language_model(config.model)) {
    text = options_without_text(config);
    text.windows.context = spec.input[0];
    text.vocabulary = spec.classes;
  } else {
    splits.second = std::make_shared<NoExamples>(spec);
  }
  switch (task_kind(config)) {
    case TaskKind::classification:
      return std::make_unique<Classification>(classification_options(config, splits));
    case TaskKind::regression:
      return std::make_unique<Regression>(regression_options(config, splits));
    case TaskKind::segmentation:
      return std::make_unique<Segmentation>(segmentation_options(config, splits));
    case TaskKind::next_token:
      return std::make_unique<LanguageModelling>(text);
    case TaskKind::masked_tokens:
      return std::make_unique<MaskedLanguageModelling>(text);
  }
  return nullptr;
}

}  // namespace athanor
