// Runs that learn to predict numbers.
#include "athanor/train/regression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "athanor/train/test_set.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class RegressionRun : public testing::TrainerTest {
 protected:
  RegressionRun() {
    config_ = default_config("mlp", "regression");
    config_.data = (folder_ / "house.csv").string();
    config_.target = "price";
    config_.epochs = 6;
    config_.threads = 1;
    config_.device = "cpu";
    std::mt19937 random(5);
    std::normal_distribution<double> noise(0, 5);
    std::string table = "area,price,city\n";
    for (int i = 0; i < 400; ++i) {
      const double area = 30 + static_cast<double>(i * 37 % 170);
      const bool north = i % 3 == 0;
      table += fmt::format("{},{:.3f},{}\n", area, 1000 + 3 * area + (north ? 100 : 0) + noise(random),
                           north ? "north" : "south");
    }
    write_file_atomically(config_.data, table);
  }
};

/// The model's predictions for the test examples and the right values, unscaled.
std::vector<std::pair<double, double>> predictions_of(const Checkpoint& checkpoint, const Task& task) {
  const auto model = restore_model(checkpoint, "a");
  model->eval();
  std::vector<std::pair<double, double>> pairs;
  const auto batches = task.test_batches(1);
  const NoGrad no_history;
  while (const auto batch = batches->next()) {
    const auto made = (*model)(Tensor::from(batch->inputs, {})).to_vector<float>();
    for (size_t k = 0; k < made.size(); ++k) {
      const TargetScale& scale = task.spec().targets[k];
      pairs.emplace_back(made[k] * scale.stddev + scale.mean,
                         batch->labels.as<float>()[k] * scale.stddev + scale.mean);
    }
  }
  return pairs;
}

TEST_F(RegressionRun, LearnsATableAndMeasuresItsErrors) {
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto result = summary("a");
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(checkpoint.data.class_names, std::vector<std::string>{"price"});
  EXPECT_NEAR(checkpoint.data.targets[0].mean, 1377, 20);
  const Regression task(config_);
  const auto pairs = predictions_of(checkpoint, task);
  ASSERT_EQ(pairs.size(), 40U);
  double mean = 0, squares = 0, sizes = 0, spread = 0;
  const auto count = static_cast<double>(pairs.size());
  for (const auto& [made, right] : pairs) mean += right / count;
  for (const auto& [made, right] : pairs) {
    squares += (made - right) * (made - right), sizes += std::abs(made - right);
    spread += (right - mean) * (right - mean);
  }
  EXPECT_GT(result["test_r2"], 0.95) << "the noise leaves 0.998";
  EXPECT_NEAR(result["test_r2"], 1 - squares / spread, 1e-4);
  EXPECT_NEAR(result["test_rmse"], std::sqrt(squares / count), 1e-2);
  EXPECT_NEAR(result["test_mae"], sizes / count, 1e-2);
  EXPECT_FALSE(result.contains("test_accuracy"));
  EXPECT_FALSE(result["epoch_metrics"].back().contains("test_accuracy"));
  EXPECT_EQ(result["epoch_metrics"].back()["test_rmse"], result["test_rmse"]);
  EXPECT_EQ(metrics("a").find("accuracy"), std::string::npos);
  EXPECT_EQ(read_text_file(run_folder("a").loss_svg()).find("ccuracy"), std::string::npos);
}

TEST_F(RegressionRun, StoppedAnywhereItGoesOnToTheSameNumbers) {
  config_.epochs = 2;
  train("whole");
  for (const int64_t stop : {3, 11, 0}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(RegressionRun, SeveralTargetsOfArraysAreMeans) {
  const int64_t count = 90;
  HostArray x(DType::f64, {count, 3}), y(DType::f32, {count, 2});
  for (int64_t i = 0; i < count; ++i) {
    const auto row = static_cast<size_t>(i);
    for (size_t k = 0; k < 3; ++k)
      x.as<double>()[row * 3 + k] = 100 + static_cast<double>(i * (7 + static_cast<int64_t>(k) * 4) % 31);
    y.as<float>()[row * 2] = static_cast<float>(x.as<double>()[row * 3]) * 1000;
    y.as<float>()[row * 2 + 1] = static_cast<float>(x.as<double>()[row * 3 + 1]) / 1000;
  }
  std::filesystem::create_directories(folder_ / "rows");
  write_npy(folder_ / "rows" / "train_inputs.npy", x);
  write_npy(folder_ / "rows" / "train_targets.npy", y);
  write_npy(folder_ / "rows" / "test_inputs.npy", x);
  write_npy(folder_ / "rows" / "test_targets.npy", y);
  config_.data = (folder_ / "rows").string();
  config_.target.clear();
  config_.loss = "huber";
  config_.epochs = 40;
  train("a");
  const auto result = summary("a");
  EXPECT_GT(result["test_r2"], 0.9);
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  const Regression task(config_);
  const auto model = restore_model(checkpoint, "a");
  for (const int64_t batch : {7, 90}) {
    const TestResult sum = test_model(*model, {}, task, batch, [](int64_t) { return true; });
    EXPECT_EQ(sum.count, count);
    EXPECT_NEAR(sum.accuracy(), result["test_r2"], 1e-5) << "what fills up the last batch does not count";
    EXPECT_NEAR(sum.mean_loss(), result["test_loss"], 1e-6);
    EXPECT_NEAR(by_name(sum.measures).at("mae"), result["test_mae"], 1e-2);
  }
}

TEST_F(RegressionRun, PicturesHaveNumbersToo) {
  HostArray images(DType::u8, {60, 8, 8}), brightness(DType::f32, {60});
  for (size_t n = 0; n < 60; ++n) {
    for (size_t i = 0; i < 64; ++i) images.as<uint8_t>()[n * 64 + i] = static_cast<uint8_t>(n * 4 + i % 5);
    brightness.as<float>()[n] = static_cast<float>(n) - 30;
  }
  std::filesystem::create_directories(folder_ / "pictures");
  for (const char* split : {"train", "test"}) {
    write_npy(folder_ / "pictures" / fmt::format("{}_images.npy", split), images);
    write_npy(folder_ / "pictures" / fmt::format("{}_targets.npy", split), brightness);
  }
  config_.model = "cnn";
  config_.data = (folder_ / "pictures").string();
  config_.target.clear();
  config_.batch_size = 20;
  train("a");
  EXPECT_GT(summary("a")["test_r2"], 0.9);
}

TEST_F(RegressionRun, WhatMakesNoSenseIsExplained) {
  config_.target = "prize";
  expect_error(ErrorCode::usage, {"house.csv", "prize", "price"}, [&] { train("a"); });
  config_.target = "city";
  expect_error(ErrorCode::value, {"house.csv", "city", "north"}, [&] { train("a"); });
  config_.target = "price";
  config_.loss = "cross-entropy";
  expect_error(ErrorCode::usage, {"--loss", "huber"}, [&] { train("a"); });
  config_.loss.clear();
  config_.augment = "mixup";
  expect_error(ErrorCode::usage, {"--augment"}, [&] { train("a"); });
  config_.augment = "none";
  config_.data = (folder_ / "data").string();  // it has classes
  config_.target.clear();
  config_.task = "classification";
  config_.loss = "l1";
  expect_error(ErrorCode::usage, {"--loss", "--task regression"}, [&] { train("a"); });
}

// The results of torch.nn.functional.mse_loss, l1_loss and huber_loss for these numbers.
TEST(NumberLoss, IsThatOfPyTorch) {
  const Tensor made = Tensor::from(std::vector<float>{0.5F, -2, 3, 0}, {2, 2}),
               right = Tensor::from(std::vector<float>{0, 0, 0, 1}, {2, 2});
  EXPECT_FLOAT_EQ(static_cast<float>(number_loss(made, right, "mse").item()), 3.5625F);
  EXPECT_FLOAT_EQ(static_cast<float>(number_loss(made, right, "l1").item()), 1.625F);
  EXPECT_FLOAT_EQ(static_cast<float>(number_loss(made, right, "huber").item()), 1.15625F);
}

}  // namespace
}  // namespace athanor
