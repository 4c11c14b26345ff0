// Training on augmented pictures.
#include <gtest/gtest.h>

#include "athanor/nn/linear.h"
#include "athanor/train/training_step.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class AugmentedRun : public testing::TrainerTest {};

TEST_F(AugmentedRun, GoesOnToTheSameNumbersWhateverTheWorkers) {
  config_.augment = "standard,trivial,erase,mixup,cutmix";
  train("whole");
  config_.workers = 3;
  config_.max_steps = 13;
  train("parts");
  config_.workers = 0;
  config_.max_steps = 0;
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  EXPECT_EQ(summary("parts")["augment"], config_.augment);
  config_.augment = "none";
  expect_error(ErrorCode::usage, {"--augment"}, [&] {
    const auto given = [](const std::string& field) { return field == "augment"; };
    resume_config(stored_config(run_folder("parts")), config_, given, folder_.path());
  });
}

TEST_F(AugmentedRun, MixedLabelsNeedOnePlan) {
  config_.augment = "cutmix";
  config_.max_steps = 4;
  train("a");
  EXPECT_EQ(summary("a")["steps"], 4);
  config_.augment = "flop";
  expect_error(ErrorCode::usage, {"'flop'", "Did you mean 'flip'?"}, [&] { train("b"); });
}

// Cross-entropy is linear in its target, so a mixture's loss is the mixture of the losses.
TEST(SoftLabels, LossIsTheMixtureOfLosses) {
  nn::Linear model(3, 4);
  const Tensor inputs =
      Tensor::from(from_doubles(DType::f32, {2, 3}, std::vector<double>{1, -2, 3, 0, 1, 2}));
  const auto labels = [](const std::vector<double>& values) {
    return Tensor::from(from_doubles(DType::i64, {2}, values));
  };
  const Tensor soft =
      Tensor::from(from_doubles(DType::f32, {2, 4}, std::vector<double>{0.7, 0, 0.3, 0, 0, 0.7, 0, 0.3}));
  for (const double smoothing : {0.0, 0.1}) {
    const auto loss = [&](const Tensor& wanted) {
      return classify(model, inputs, wanted, smoothing).loss.item();
    };
    EXPECT_NEAR(loss(soft), 0.7 * loss(labels({0, 1})) + 0.3 * loss(labels({2, 3})), 1e-5) << smoothing;
  }
  const double right = classify(model, inputs, soft).correct.item();
  EXPECT_EQ(right, classify(model, inputs, labels({0, 1})).correct.item()) << "the larger part counts";
}

}  // namespace
}  // namespace athanor
