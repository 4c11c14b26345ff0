// Runs in mixed precision: they learn as in f32, report what they do, and resume to the same bits.
#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/train/metrics.h"
#include "trainer_fixture.h"

namespace athanor {
namespace {

class PrecisionTest : public testing::TrainerTest {
 protected:
  std::vector<StepMetrics> steps(const std::string& name) const {
    return read_metrics(run_folder(name).metrics());
  }
  /// The mean loss of the second half of a run.
  double late_loss(const std::string& name) const {
    const auto all = steps(name);
    const size_t first = all.size() / 2;
    double total = 0;
    for (size_t i = first; i < all.size(); ++i) total += all[i].loss;
    return total / static_cast<double>(all.size() - first);
  }
};

TEST_F(PrecisionTest, LearnsAsInF32) {
  config_.epochs = 4;
  for (const char* model : {"mlp", "cnn"})
    for (const char* precision : {"f32", "bf16", "f16"}) {
      config_.model = model;
      config_.precision = precision;
      const std::string name = std::string(model) + "-" + precision;
      EXPECT_EQ(train(name), RunEnd::finished);
      const std::string exact = std::string(model) + "-f32";
      EXPECT_NEAR(late_loss(name), late_loss(exact), 0.05 * late_loss(exact) + 0.02) << name;
      EXPECT_EQ(steps(name) == steps(exact), name == exact) << name << " is f32 by another name";
      EXPECT_EQ(summary(name)["precision"], precision);
      EXPECT_EQ(summary(name)["kernels_off_device"], 0);
    }
}

TEST_F(PrecisionTest, LearnsFashionMnistAsInF32) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "Fashion-MNIST is not installed (apt install dataset-fashion-mnist)";
  config_.data = "fashion-mnist";
  config_.batch_size = 64;
  config_.max_steps = 100;
  config_.eval_examples = 2000;  // of 200, three percent are six pictures
  for (const char* precision : {"f32", "bf16", "f16"}) {
    config_.precision = precision;
    config_.seed = 3;
    EXPECT_EQ(train(precision), RunEnd::finished);
  }
  config_.precision = "f32";
  config_.seed = 4;
  train("other-seed");
  // A different seed for batches and first weights alone makes this much difference.
  const double noise = std::max(0.02, std::abs(late_loss("other-seed") - late_loss("f32")));
  for (const char* precision : {"bf16", "f16"}) {
    EXPECT_NEAR(late_loss(precision), late_loss("f32"), noise) << precision;
    EXPECT_NEAR(summary(precision)["test_accuracy"].get<double>(),
                summary("f32")["test_accuracy"].get<double>(), 0.03)
        << precision;
  }
  EXPECT_LT(late_loss("f32"), 0.75 * steps("f32").front().loss);
  EXPECT_EQ(steps("f16").front().loss_scale, 65536);
}

TEST_F(PrecisionTest, F16ShowsItsLossScale) {
  config_.precision = "f16";
  train("half");
  for (const StepMetrics& step : steps("half")) ASSERT_TRUE(step.loss_scale.has_value());
  EXPECT_EQ(steps("half").front().loss_scale, 65536);
  const int64_t skipped = std::ranges::count_if(steps("half"), &StepMetrics::skipped);
  EXPECT_EQ(summary("half")["skipped_steps"], skipped);
  EXPECT_EQ(summary("half")["loss_scale"], *steps("half").back().loss_scale);
  config_.precision = "bf16";
  train("brain");
  EXPECT_FALSE(steps("brain").front().loss_scale.has_value());
  EXPECT_FALSE(summary("brain").contains("loss_scale"));
}

TEST_F(PrecisionTest, ResumesToTheSameBits) {
  for (const char* precision : {"bf16", "f16"}) {
    config_.precision = precision;
    config_.optimizer = "adam";
    config_.lr = 1e-3;
    config_.max_steps = 0;
    const std::string name = precision;
    train(name + "-whole");
    config_.max_steps = 7;
    train(name + "-parts");
    config_.max_steps = 13;
    train(name + "-parts", true);
    config_.max_steps = 0;
    train(name + "-parts", true);
    EXPECT_EQ(metrics(name + "-parts"), metrics(name + "-whole"));
    const Checkpoint whole = read_checkpoint(run_folder(name + "-whole").checkpoint());
    const Checkpoint parts = read_checkpoint(run_folder(name + "-parts").checkpoint());
    EXPECT_EQ(whole.model.size(), parts.model.size());
    for (const auto& [key, array] : whole.model) EXPECT_EQ(array.bytes, parts.model.at(key).bytes) << key;
    EXPECT_EQ(whole.scaler.size(), name == "f16" ? 3U : 0U);
    for (const auto& [key, array] : whole.scaler) EXPECT_EQ(array.bytes, parts.scaler.at(key).bytes) << key;
  }
}

TEST_F(PrecisionTest, IsNotChangedOnResuming) {
  config_.max_steps = 3;
  train("run");
  const TrainConfig stored = config_;
  config_.precision = "bf16";
  EXPECT_THROW(resume_config(
                   stored, config_, [](const std::string& field) { return field == "precision"; },
                   run_folder("run").path),
               Error);
}

TEST_F(PrecisionTest, Tf32IsRefusedWhereNothingComputesIt) {
  config_.precision = "tf32";
  config_.device = "cpu";
  try {
    train("run");
    FAIL() << "cpu computed tf32";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(error.hint().find("bf16"), std::string::npos) << error.hint();
  }
  EXPECT_FALSE(std::filesystem::exists(run_folder("run").path));
}

TEST_F(PrecisionTest, UnknownNamesAreRefused) {
  config_.precision = "fp16";
  EXPECT_THROW(train("run"), Error);
}

TEST(Precision, SaysWhatItCostsWhereItIsNotAtHome) {
  EXPECT_EQ(require_precision({}, Precision::f32), "");
  // No CPU kernel multiplies f16 directly.
  EXPECT_NE(require_precision({}, Precision::f16).find("f16"), std::string::npos);
}

}  // namespace
}  // namespace athanor
