// Segmentation: the task of predicting a class for each pixel.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/augmentation.h"
#include "athanor/train/dataset_task.h"
#include "athanor/train/task.h"

namespace athanor {

/// Cross-entropy of the model's logits [N, C, H, W] for classes i64[N, H, W]. In a test the scores are the
/// predicted classes, i64[N, H, W].
Forward name_pixels(nn::Module& model, const Tensor& pictures, const Tensor& classes);

/// Pixel accuracy. Mean IoU decides which test is the best: the intersection of truth and answer divided by
/// their union, and the mean over the classes that occur in either.
class PixelScoring final : public Scoring {
 public:
  Unit unit() const override;
  std::vector<Measure> measures(double mean_loss, double accuracy) const override;
  std::string bar(double mean_loss, double accuracy) const override;
  ResultText in_words(double mean_loss, double accuracy, int64_t count) const override;
  double score(double mean_loss, double accuracy, const TestMeasures& more) const override;
  std::string best(double mean_loss, double accuracy, const TestMeasures& more) const override;
  std::string use() const override { return "predict IMAGE"; }
};

struct SegmentationOptions {
  std::shared_ptr<const Dataset> train;  // none: the model is only tested
  std::shared_ptr<const Dataset> test;   // with spec().pixels set
  std::string data_name = {};            // in errors
  std::function<std::unique_ptr<nn::Module>(const ExampleSpec&)> model = {};
  int64_t batch_size = 16;
  uint64_t seed = 0;                                      // for shuffling
  int workers = 0;                                        // threads that make batches
  std::shared_ptr<const Augmentation> augmentation = {};  // of training images and their masks
};

/// The options of a run on these images; see Splits.
SegmentationOptions segmentation_options(const TrainConfig& config, const Splits& splits);

class Segmentation final : public DatasetTask<SegmentationOptions> {
 public:
  /// Throws Error(shape) if training and test images differ in shape, Error(usage) if there are fewer than a
  /// batch.
  explicit Segmentation(SegmentationOptions options);
  /// The folder of `--data`, and the model of `--model`.
  explicit Segmentation(const TrainConfig& config);

  std::string describe() const override;
  std::shared_ptr<const Scoring> scoring() const override { return std::make_shared<PixelScoring>(); }
  std::unique_ptr<Tally> tally() const override;
  Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const override {
    return name_pixels(model, inputs, targets);
  }
  /// Pixels, including ignored ones.
  int64_t test_count() const override;
  TensorType target_type(int64_t batch_size) const override;
};

}  // namespace athanor
