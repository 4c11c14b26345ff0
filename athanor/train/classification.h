// Classification: the task of predicting an image's class.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "athanor/data/augmentation.h"
#include "athanor/train/dataset_task.h"
#include "athanor/train/device_augmentation.h"
#include "athanor/train/task.h"

namespace athanor {

struct ClassificationOptions {
  std::shared_ptr<const Dataset> train;  // none: the model is only tested
  std::shared_ptr<const Dataset> test;
  std::string data_name = {};  // in errors
  std::function<std::unique_ptr<nn::Module>(const ExampleSpec&)> model = {};
  int64_t batch_size = 128;
  uint64_t seed = 0;                                      // for shuffling
  int workers = 0;                                        // threads that make batches
  double label_smoothing = 0;                             // in training
  std::shared_ptr<const Augmentation> augmentation = {};  // of training images
  std::optional<DeviceAugmentation> on_device = {};       // likewise, as part of the step
};

/// The options of a run on these images; see Splits.
ClassificationOptions classification_options(const TrainConfig& config, const Splits& splits);

class Classification final : public DatasetTask<ClassificationOptions> {
 public:
  /// Throws Error(shape) if training and test images differ in shape, Error(usage) if there are fewer than a
  /// batch.
  explicit Classification(ClassificationOptions options);
  /// The dataset of `--data`, and the model of `--model`. Throws what open_dataset() throws; Error(usage)
  /// for a name that does not exist.
  explicit Classification(const TrainConfig& config);

  std::string describe() const override;
  std::shared_ptr<const Scoring> scoring() const override {
    return std::make_shared<ClassScoring>(spec().columns.empty());
  }
  Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const override;
  TensorType target_type(int64_t batch_size) const override;
};

}  // namespace athanor
