#include "athanor/train/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/data/dataloader.h"
#include "athanor/data/first_examples.h"
#include "athanor/data/held_back.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/full_batches.h"

namespace athanor {

ClassificationOptions classification_options(const TrainConfig& config, const Splits& splits) {
  auto options = dataset_options<ClassificationOptions>(config, splits);
  options.label_smoothing = config.label_smoothing;
  if (config.augment_on == "device") options.on_device.emplace(*std::exchange(options.augmentation, nullptr));
  return options;
}

Classification::Classification(const TrainConfig& config)
    : Classification(classification_options(config, open_both_splits(config, {.target = config.target}))) {}

Classification::Classification(ClassificationOptions options) : options_(std::move(options)) {
  if (spec().pixels)
    throw Error(ErrorCode::usage, "the data has masks, which classification does not learn from",
                options_.data_name, "For segmentation: --model unet-small");
  if (options_.train)
    check_splits(*options_.train, *options_.test, options_.batch_size, "images", options_.data_name);
}

const ExampleSpec& Classification::spec() const {
  return (options_.train ? options_.train : options_.test)->spec();
}

std::string Classification::describe() const {
  const Shape& input = spec().input;
  std::string changes;
  if (options_.augmentation && !options_.augmentation->empty()) changes = options_.augmentation->to_string();
  if (options_.on_device) changes = options_.on_device->to_string() + " on the device";
  return fmt::format("{} training and {} test images of {}x{}x{}, {} classes{}",
                     grouped(options_.train->size()), grouped(options_.test->size()), input[0], input[1],
                     input[2], spec().classes, changes.empty() ? "" : ", augmented by " + changes);
}

std::unique_ptr<nn::Module> Classification::make_model() const { return options_.model(spec()); }

Forward Classification::forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const {
  if (!model.training()) return classify(model, inputs, targets, 0);
  const Tensor seen = options_.on_device ? (*options_.on_device)(inputs, spec().normalization) : inputs;
  return classify(model, seen, targets, options_.label_smoothing);
}

std::unique_ptr<Batches> Classification::training_batches() const {
  return std::make_unique<DataLoader>(options_.train, LoaderOptions{.batch_size = options_.batch_size,
                                                                    .shuffle = true,
                                                                    .seed = options_.seed,
                                                                    .drop_last = true,
                                                                    .workers = options_.workers,
                                                                    .augmentation = options_.augmentation});
}

std::unique_ptr<Batches> Classification::test_batches(int64_t batch_size) const {
  return std::make_unique<FullBatches>(options_.test, batch_size, options_.workers);
}

std::vector<std::string> Classification::broken() const {
  std::vector<std::string> all = options_.test->broken();
  if (!options_.train) return all;
  const std::vector<std::string> train = options_.train->broken();
  all.insert(all.begin(), train.begin(), train.end());
  return all;
}

TensorType Classification::input_type(int64_t batch_size) const {
  return {DType::f32, spec().input.insert(0, batch_size), {}};
}

TensorType Classification::target_type(int64_t batch_size) const {
  if (options_.augmentation && options_.augmentation->mixes())
    return {DType::f32, {batch_size, spec().classes}, {}};
  return {DType::i64, {batch_size}, {}};
}

}  // namespace athanor
