#include "athanor/train/regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/nn/auxiliary.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

/// The loss of each number.
Tensor losses_of(const Tensor& error, const std::string& name) {
  if (name == "mse") return square(error);
  Tensor size = abs(error);
  if (name == "l1") return size;
  const Tensor near = minimum(size, 1.0);
  return 0.5 * square(near) + (size - near);
}

std::vector<float> variances_of(const Dataset& dataset) {
  const size_t columns = dataset.spec().targets.size();
  std::vector<double> sums(columns), squares(columns);
  std::vector<float> numbers(columns);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    dataset.numbers(i, numbers.data());
    for (size_t k = 0; k < columns; ++k) {
      sums[k] += numbers[k];
      squares[k] += static_cast<double>(numbers[k]) * numbers[k];
    }
  }
  const auto count = static_cast<double>(dataset.size());
  std::vector<float> variances;
  for (size_t k = 0; k < columns; ++k) {
    const double mean = sums[k] / count, variance = squares[k] / count - mean * mean;
    variances.push_back(variance > 1e-12 ? static_cast<float>(variance) : 1.0F);
  }
  return variances;
}

/// RMSE and mean absolute error of the unscaled numbers; for several targets, their means.
class NumberTally final : public Tally {
 public:
  explicit NumberTally(std::vector<TargetScale> scales)
      : scales_(std::move(scales)), squares_(scales_.size()), sizes_(scales_.size()) {}

  void add(const Batch& batch, const HostArray& scores) override {
    const auto predicted = scores.as<float>();
    const auto wanted = batch.labels.as<float>();
    const size_t columns = scales_.size();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] >= ignored_number) continue;
      const double error = (static_cast<double>(predicted[i]) - wanted[i]) * scales_[i % columns].stddev;
      squares_[i % columns] += error * error;
      sizes_[i % columns] += std::abs(error);
      if (i % columns == 0) ++count_;
    }
  }

  void finish(TestResult& result) override {
    double rmse = 0, mae = 0;
    const auto columns = static_cast<double>(scales_.size());
    for (size_t k = 0; k < scales_.size(); ++k) {
      rmse += std::sqrt(squares_[k] / count_) / columns;
      mae += sizes_[k] / count_ / columns;
    }
    result.measures = {{"rmse", rmse, fmt::format("RMSE {:.5g}", rmse)},
                       {"mae", mae, fmt::format("mean absolute error {:.5g}", mae)}};
  }

 private:
  std::vector<TargetScale> scales_;
  std::vector<double> squares_, sizes_;
  double count_ = 0;
};

}  // namespace

RegressionOptions regression_options(const TrainConfig& config, const Splits& splits) {
  auto options = dataset_options<RegressionOptions>(config, splits);
  if (!config.loss.empty()) options.loss = config.loss;
  if (options.augmentation->mixes())
    throw Error(ErrorCode::usage, "mixed images have no target of their own", "--augment",
                "Leave out mixup and cutmix");
  return options;
}

std::vector<Measure> NumberScoring::measures(double /*mean_loss*/, double r2) const {
  return {{"r2", r2, fmt::format("R² {:.4f}", r2)}};
}

std::string NumberScoring::bar(double /*mean_loss*/, double r2) const { return fmt::format("R² {:.3f}", r2); }

ResultText NumberScoring::in_words(double /*mean_loss*/, double r2, int64_t count) const {
  return {fmt::format("R² {:.4f}", r2), fmt::format(" over {} test {}", grouped(count), unit().many)};
}

Tensor number_loss(const Tensor& predictions, const Tensor& targets, const std::string& name) {
  return mean(losses_of(predictions - targets, name));
}

Regression::Regression(const TrainConfig& config)
    : Regression(
          regression_options(config, open_both_splits(config, {.numbers = true, .target = config.target}))) {}

Regression::Regression(RegressionOptions options) : DatasetTask(std::move(options)) {
  if (options_.train)
    check_splits(*options_.train, *options_.test, options_.batch_size, scoring()->unit().many,
                 options_.data_name);
  test_variance_ = variances_of(*options_.test);
}

std::string Regression::describe() const {
  return fmt::format("{} training and {} test {}, to predict {}", grouped(options_.train->size()),
                     grouped(options_.test->size()), inputs_text(spec()), join(spec().class_names));
}

std::shared_ptr<const Scoring> Regression::scoring() const {
  return std::make_shared<NumberScoring>(spec().columns.empty());
}

std::unique_ptr<Tally> Regression::tally() const { return std::make_unique<NumberTally>(spec().targets); }

Forward Regression::forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const {
  const Tensor made = cast(reshape(model(inputs), targets.shape().to_ints()), DType::f32);
  if (model.training()) {
    Tensor loss = number_loss(made, targets, options_.loss);
    if (auto* second = dynamic_cast<nn::AuxiliaryLogits*>(&model))
      if (const Tensor auxiliary = second->take_auxiliary(); auxiliary.defined())
        loss = loss + second->auxiliary_weight() *
                          number_loss(cast(reshape(auxiliary, targets.shape().to_ints()), DType::f32),
                                      targets, options_.loss);
    const auto columns = static_cast<double>(targets.shape()[1]);
    return {.loss = loss, .correct = sum(1.0 - square(made.detach() - targets)) / columns};
  }
  const Tensor counts = less(targets, static_cast<double>(ignored_number));
  const Tensor error = where(counts, made - targets, 0.0), share = cast(counts, DType::f32);
  HostArray variances(DType::f32, {1, targets.shape()[1]});
  std::ranges::copy(test_variance_, variances.as<float>().begin());
  const Tensor explained = share - square(error) / Tensor::from(variances, targets.device());
  return {.loss = sum(losses_of(error, options_.loss)) / sum(share),
          .correct = sum(explained) / static_cast<double>(targets.shape()[1]),
          .scores = made};
}

TensorType Regression::target_type(int64_t batch_size) const {
  return {DType::f32, {batch_size, spec().classes}, {}};
}

}  // namespace athanor
