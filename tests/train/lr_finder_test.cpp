#include "athanor/train/lr_finder.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

LrSweep sweep_of(const std::function<double(double)>& loss_at_power) {
  LrSweep sweep;
  for (int i = 0; i <= 140; ++i) {
    const double power = -6 + i / 20.0;
    sweep.points.push_back({.lr = std::pow(10, power), .loss = loss_at_power(power)});
  }
  judge(sweep);
  return sweep;
}

// Falls like a logistic curve with its steepest point at 1e-2, and grows from about 0.3 on.
double falling(double power) {
  return 2.3 - 2 / (1 + std::exp(-4 * (power + 2))) + (power > -0.5 ? 8 * (power + 0.5) * (power + 0.5) : 0);
}

TEST(LrFinder, SuggestsATenthOfTheRateAtWhichTheLossGrows) {
  const LrSweep sweep = sweep_of(falling);
  ASSERT_TRUE(sweep.steepest);
  EXPECT_NEAR(std::log10(*sweep.steepest), -2, 0.06);
  ASSERT_TRUE(sweep.grows);
  EXPECT_DOUBLE_EQ(*sweep.suggested, *sweep.grows / 10);
  EXPECT_NEAR(std::log10(*sweep.grows), -0.3, 0.2);
  // Noise of a tenth changes it little.
  uint32_t state = 1;
  const LrSweep noisy = sweep_of([&](double power) {
    state = state * 1664525 + 1013904223;
    return falling(power) + 0.1 * (static_cast<double>(state >> 8) / (1 << 24) - 0.5);
  });
  EXPECT_NEAR(std::log10(noisy.steepest.value()), -2, 0.3);
}

// Noise in the last step is not divergence.
TEST(LrFinder, SuggestsTheSteepestWhereTheRangeEndsBeforeTheLossGrows) {
  const LrSweep flat = sweep_of(
      [](double power) { return 2.3 - 2 / (1 + std::exp(-4 * (power + 2))) + (power > 0.9 ? 0.05 : 0.0); });
  EXPECT_FALSE(flat.grows);
  EXPECT_NEAR(std::log10(flat.suggested.value()), -2, 0.06);
  const LrSweep still_falling =
      sweep_of([](double power) { return 2.3 - 2 / (1 + std::exp(-4 * (power - 0.2))); });
  EXPECT_FALSE(still_falling.grows);
  EXPECT_NEAR(std::log10(still_falling.suggested.value()), 0.2, 0.1);
}

TEST(LrFinder, SuggestsNothingWhereNothingFalls) {
  EXPECT_FALSE(sweep_of([](double) { return 2.3; }).suggested);
  EXPECT_FALSE(sweep_of([](double power) { return 3 + power / 10; }).suggested);
  LrSweep none;
  judge(none);
  EXPECT_FALSE(none.suggested);
  EXPECT_THAT(draw_lr_sweep(none, "a", "b"), HasSubstr("</svg>"));
}

TEST(LrFinder, PictureMarksTheSuggestion) {
  const std::string svg = draw_lr_sweep(sweep_of(falling), "mlp <1>", "sgd");
  EXPECT_THAT(svg, HasSubstr("falls fastest at 0.0"));
  EXPECT_THAT(svg, HasSubstr("suggested: 0."));
  EXPECT_THAT(svg, HasSubstr("mlp &lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr(">running mean</text>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

class LrFinderRun : public testing::TrainerTest {};

TEST_F(LrFinderRun, SweepsAModelAndKeepsNothing) {
  int64_t told = 0;
  const LrSweep sweep = sweep_learning_rates(config_, [&](int64_t done, int64_t of) {
    told = done;
    EXPECT_EQ(of, 141);
  });
  EXPECT_EQ(told, std::ssize(sweep.points));
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    files.push_back(file.path().filename());
  EXPECT_EQ(files, std::vector<std::string>{"data"}) << "no run";
  EXPECT_DOUBLE_EQ(sweep.points.front().lr, 1e-6);
  ASSERT_TRUE(sweep.suggested) << "quadrants are learned in few steps";
  // A rate near the suggestion learns; the rate at which the loss grows is larger.
  EXPECT_LT(*sweep.suggested, sweep.grows.value_or(10));
  config_.lr = sweep.suggested;
  train("a");
  EXPECT_LT(summary("a")["train_loss"], 0.7 * sweep.points.front().loss);
  // The same options give the same losses.
  EXPECT_EQ(sweep_learning_rates(config_, [](int64_t, int64_t) {}).points[20].loss, sweep.points[20].loss);
}

}  // namespace
}  // namespace athanor
