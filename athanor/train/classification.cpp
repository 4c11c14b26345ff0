#include "athanor/train/classification.h"

#include <fmt/format.h>

#include <utility>

#include "athanor/base/error.h"

namespace athanor {

ClassificationOptions classification_options(const TrainConfig& config, const Splits& splits) {
  auto options = dataset_options<ClassificationOptions>(config, splits);
  options.label_smoothing = config.label_smoothing;
  if (config.augment_on == "device") options.on_device.emplace(*std::exchange(options.augmentation, nullptr));
  return options;
}

Classification::Classification(const TrainConfig& config)
    : Classification(classification_options(config, open_both_splits(config, {.target = config.target}))) {}

Classification::Classification(ClassificationOptions options) : DatasetTask(std::move(options)) {
  if (spec().pixels)
    throw Error(ErrorCode::usage, "the data has masks, which classification does not learn from",
                options_.data_name, "For segmentation: --model unet-small");
  if (options_.train)
    check_splits(*options_.train, *options_.test, options_.batch_size, scoring()->unit().many,
                 options_.data_name);
}

std::string Classification::describe() const {
  std::string changes;
  if (options_.augmentation && !options_.augmentation->empty()) changes = options_.augmentation->to_string();
  if (options_.on_device) changes = options_.on_device->to_string() + " on the device";
  return fmt::format("{} training and {} test {}, {} classes{}", grouped(options_.train->size()),
                     grouped(options_.test->size()), inputs_text(spec()), spec().classes,
                     changes.empty() ? "" : ", augmented by " + changes);
}

Forward Classification::forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const {
  if (!model.training()) return classify(model, inputs, targets, 0);
  if (!options_.on_device) return classify(model, inputs, targets, options_.label_smoothing);
  const Tensor changed = (*options_.on_device)(inputs, spec().normalization);
  const auto [seen, wanted] = options_.on_device->mix(changed, targets, spec().classes);
  return classify(model, seen, wanted, options_.label_smoothing);
}

TensorType Classification::target_type(int64_t batch_size) const {
  if (options_.augmentation && options_.augmentation->mixes())
    return {DType::f32, {batch_size, spec().classes}, {}};
  return {DType::i64, {batch_size}, {}};
}

}  // namespace athanor
