// Gradient accumulation: a batch in parts has the same results as the whole batch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/training_step.h"
#include "tests/support/expect_error.h"
#include "trainer_fixture.h"

namespace athanor {
namespace {

using testing::TrainerTest;

constexpr int64_t whole_batch = 12;

struct Batch12 {
  std::vector<float> pictures;
  std::vector<int64_t> labels;
};

Batch12 numbered_batch() {
  Batch12 batch;
  for (int64_t i = 0; i < whole_batch * 3 * 64; ++i)
    batch.pictures.push_back(std::sin(static_cast<float>(i * i % 1009)));
  for (int64_t i = 0; i < whole_batch; ++i) batch.labels.push_back(i * 7 % 5);
  return batch;
}

std::vector<BatchPart> in_parts(const Batch12& batch, int64_t parts) {
  std::vector<BatchPart> all;
  const int64_t n = whole_batch / parts, size = n * 3 * 64;
  for (int64_t p = 0; p < parts; ++p) {
    const std::vector<float> x(batch.pictures.begin() + p * size, batch.pictures.begin() + (p + 1) * size);
    const std::vector<int64_t> y(batch.labels.begin() + p * n, batch.labels.begin() + (p + 1) * n);
    const auto counted = n - std::count(y.begin(), y.end(), ignored_target);
    all.push_back({Tensor::from(x, {n, 3, 8, 8}), Tensor::from(y, {n}), counted});
  }
  return all;
}

std::unique_ptr<nn::Module> small_net() {
  manual_seed(9);
  return std::make_unique<nn::Sequential>(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::ReLU(),
                                          nn::Conv2d(8, 8, 3, {.padding = 1}), nn::ReLU(), nn::Flatten(),
                                          nn::Linear(8 * 64, 5));
}

struct Outcome {
  std::vector<double> losses, correct, skipped, scales;
  nn::StateDict state;
};

Outcome train_in_parts(const Batch12& batch, int64_t parts, const std::string& optimizer_name, int steps,
                       double clip_norm = 0, bool f16 = false) {
  const auto model = small_net();
  const auto optimizer =
      optim::make_optimizer(optimizer_name, model->parameters(), {.lr = 0.01, .momentum = 0.9});
  std::optional<optim::GradScaler> scaler;
  if (f16) scaler.emplace(Device{}, optim::GradScalerOptions{.initial_scale = 1024});
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const PendingStep made = training_step(*model, *optimizer, in_parts(batch, parts),
                                           {.clip_norm = clip_norm,
                                            .precision = f16 ? Precision::f16 : Precision::f32,
                                            .scaler = f16 ? &*scaler : nullptr});
    outcome.losses.push_back(made.loss.item());
    outcome.correct.push_back(made.correct.item());
    if (f16) outcome.skipped.push_back(made.skipped.item()), outcome.scales.push_back(scaler->scale().item());
  }
  outcome.state = model->state_dict();
  return outcome;
}

void expect_near_to_rounding(const Outcome& parts, const Outcome& whole) {
  EXPECT_EQ(parts.correct, whole.correct);
  for (size_t s = 0; s < whole.losses.size(); ++s) EXPECT_NEAR(parts.losses[s], whole.losses[s], 1e-5);
  for (const auto& [name, value] : whole.state) {
    const auto expected = to_doubles(value), found = to_doubles(parts.state.at(name));
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << name;
  }
}

TEST(Accumulate, GivesTheStepsOfTheWholeBatch) {
  const Batch12 batch = numbered_batch();
  for (const char* optimizer : {"sgd", "adamw"})
    for (const double clip_norm : {0.0, 0.5}) {
      SCOPED_TRACE(optimizer);
      const Outcome whole = train_in_parts(batch, 1, optimizer, 4, clip_norm);
      for (const int64_t parts : {2, 4})
        expect_near_to_rounding(train_in_parts(batch, parts, optimizer, 4, clip_norm), whole);
    }
}

TEST(Accumulate, WeighsPartsByTheTargetsThatCount) {
  Batch12 batch = numbered_batch();
  for (const size_t i : {0, 1, 2, 7}) batch.labels[i] = ignored_target;
  expect_near_to_rounding(train_in_parts(batch, 3, "sgd", 3), train_in_parts(batch, 1, "sgd", 3));
}

TEST(Accumulate, ALossScaleDecidesOnceForAllParts) {
  Batch12 batch = numbered_batch();
  const Outcome whole = train_in_parts(batch, 1, "sgd", 2, 0, true),
                parts = train_in_parts(batch, 4, "sgd", 2, 0, true);
  EXPECT_EQ(parts.skipped.back(), 0);
  for (size_t s = 0; s < whole.losses.size(); ++s) EXPECT_NEAR(parts.losses[s], whole.losses[s], 2e-3);
  // The gradients of one of the four parts overflow.
  for (size_t i = 3 * 3 * 64; i < 6 * 3 * 64; ++i) batch.pictures[i] *= 3e4F;
  const nn::StateDict before = small_net()->state_dict();
  const Outcome overflowed = train_in_parts(batch, 4, "sgd", 1, 0, true);
  EXPECT_EQ(overflowed.skipped.back(), 1);
  EXPECT_EQ(overflowed.scales.back(), 512);
  for (const auto& [name, value] : before) EXPECT_EQ(overflowed.state.at(name).bytes, value.bytes) << name;
}

TEST(Accumulate, RunsTheSamePlansInEachStep) {
  const Batch12 batch = numbered_batch();
  int64_t compiled = 0;
  for (const int steps : {2, 5}) {
    clear_plan_cache();
    reset_evaluation_stats();
    train_in_parts(batch, 4, "sgd", steps);
    if (steps == 2) compiled = evaluation_stats().plans_compiled;
  }
  EXPECT_EQ(evaluation_stats().plans_compiled, compiled);
  // Parameters and momentum are updated in place.
  for (const int output : last_plan()->outputs) {
    const PlanValue& value = last_plan()->values[static_cast<size_t>(output)];
    if (value.type.shape.size() > 1) {
      EXPECT_GE(value.in_place_of, 0) << to_string(value.type);
    }
  }
}

TEST_F(TrainerTest, ABatchInPartsLearnsAsTheWhole) {
  config_.deterministic = true;
  config_.epochs = 1;
  train("whole");
  config_.accumulate = 4;
  train("parts");
  const auto whole = read_metrics(run_folder("whole").metrics()),
             parts = read_metrics(run_folder("parts").metrics());
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t s = 0; s < whole.size(); ++s) EXPECT_NEAR(parts[s].loss, whole[s].loss, 1e-4) << s;
}

TEST_F(TrainerTest, ABatchInPartsResumesToTheSameNumbers) {
  config_.model = "cnn";
  config_.epochs = 1;
  config_.accumulate = 2;
  config_.precision = "f16";
  train("whole");
  config_.max_steps = 3;
  train("parts", true);
  config_.max_steps = 0;
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

// Like runs on large pictures, where a whole batch would take most of the memory.
class AccumulatedRun : public TrainerTest {
 protected:
  AccumulatedRun() {
    testing::write_pictures(folder_ / "data", "train", 2048);
    testing::write_pictures(folder_ / "data", "test", 2048);
    config_.model = "cnn";
    config_.device = "cpu";
    config_.batch_size = 2048;
    config_.accumulate = 16;
    config_.deterministic = true;
    config_.epochs = 1;
  }
};

TEST_F(AccumulatedRun, TestsInPartsToo) {
  clear_plan_cache();
  train("parts");
  const auto result = summary("parts");
  EXPECT_LE(result["peak_memory_bytes"].get<double>(), 1.01 * result["planned_memory_bytes"].get<double>());
}

TEST_F(AccumulatedRun, FitsALimitFromTheFirstStepToTheLastTest) {
  train("free");
  config_.memory_limit = summary("free")["planned_memory_bytes"].get<int64_t>();
  EXPECT_EQ(train("limited"), RunEnd::finished);
}

TEST_F(AccumulatedRun, ALimitThatIsTooLowAdvisesWhatIsLeft) {
  config_.memory_limit = 1 << 20;
  testing::expect_error(ErrorCode::usage, {"the memory limit of 1.00 MiB is too low", "--accumulate 32"},
                        [&] { train("a"); });
  config_.accumulate = 1;
  testing::expect_error(ErrorCode::usage, {"in parts: --accumulate"}, [&] { train("b"); });
  config_.batch_size = config_.accumulate = 512;
  config_.memory_limit = 1 << 14;  // less than the parameters
  try {
    train("c");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint().find("--accumulate"), std::string::npos) << error.what();
  }
}

TEST_F(TrainerTest, ARunWhoseTestFailsGoesOn) {
  train("whole");
  {
    Reporter nobody;
    Trainer trainer(config_, run_folder("a"), false, nobody);
    trainer.callbacks().on_evaluation = [](int64_t, const MetricsSum&) {
      throw Error(ErrorCode::device, "the test failed");
    };
    EXPECT_THROW(trainer.run(), Error);
  }
  EXPECT_EQ(read_checkpoint(run_folder("a").checkpoint()).state.step, 10);
  EXPECT_EQ(train("a", true), RunEnd::finished);
  EXPECT_EQ(metrics("a"), metrics("whole"));
}

TEST_F(TrainerTest, PartsMustDivideTheBatch) {
  config_.accumulate = 3;
  EXPECT_THROW(train("a"), Error);
}

}  // namespace
}  // namespace athanor
