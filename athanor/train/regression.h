// Regression: the task of predicting numbers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/augmentation.h"
#include "athanor/train/dataset_task.h"
#include "athanor/train/task.h"

namespace athanor {

/// R2, the coefficient of determination: 1 minus the mean squared error divided by the targets' variance; for
/// several targets, the mean. In training the variance is that of all training targets.
class NumberScoring final : public Scoring {
 public:
  explicit NumberScoring(bool pictures) : pictures_(pictures) {}
  Unit unit() const override { return pictures_ ? Unit{} : examples_unit(); }
  Quality quality() const override { return {.field = "r2", .title = "R²"}; }
  std::vector<Measure> measures(double mean_loss, double r2) const override;
  std::string bar(double mean_loss, double r2) const override;
  ResultText in_words(double mean_loss, double r2, int64_t count) const override;
  double score(double /*mean_loss*/, double r2, const TestMeasures& /*more*/) const override { return r2; }
  std::string use() const override { return pictures_ ? "predict IMAGE" : "predict FILE.csv"; }

 private:
  bool pictures_;
};

/// The mean loss, see loss_names(), of predictions for targets, both scaled, of one shape. Huber's loss is
/// half the squared error for an error up to 1, and linear beyond.
Tensor number_loss(const Tensor& predictions, const Tensor& targets, const std::string& name);

struct RegressionOptions {
  std::shared_ptr<const Dataset> train;  // none: the model is only tested
  std::shared_ptr<const Dataset> test;   // with numbers as targets
  std::string data_name = {};            // in errors
  std::function<std::unique_ptr<nn::Module>(const ExampleSpec&)> model = {};
  std::string loss = "mse";
  int64_t batch_size = 128;
  uint64_t seed = 0;                                      // for shuffling
  int workers = 0;                                        // threads that make batches
  std::shared_ptr<const Augmentation> augmentation = {};  // of training images
};

/// The options of a run on these examples; see Splits.
RegressionOptions regression_options(const TrainConfig& config, const Splits& splits);

/// Losses are computed from scaled targets (TargetScale); a test measures errors of the unscaled numbers.
class Regression final : public DatasetTask<RegressionOptions> {
 public:
  /// Throws Error(shape) if training and test examples differ in shape, Error(usage) if there are fewer than
  /// a batch.
  explicit Regression(RegressionOptions options);
  /// The dataset of `--data`, and the model of `--model`.
  explicit Regression(const TrainConfig& config);

  std::string describe() const override;
  std::shared_ptr<const Scoring> scoring() const override;
  std::unique_ptr<Tally> tally() const override;
  Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const override;
  TensorType target_type(int64_t batch_size) const override;

 private:
  std::vector<float> test_variance_;  // of each target, scaled; 1 if it is constant
};

}  // namespace athanor
