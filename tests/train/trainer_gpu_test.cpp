// Runs on a device that works asynchronously: the trainer reads losses up to two steps late. Files, resuming
// and errors must be as if it waited for each step.
#include <cmath>
#include <csignal>
#include <set>

#include "athanor/base/os/interrupt.h"
#include "athanor/compile/options.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/reduced.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

/// Interrupts a run after this many reported steps.
class InterruptAfter final : public Reporter {
 public:
  explicit InterruptAfter(int64_t steps) : steps_(steps) {}
  void stepped(const StepMetrics& metrics, double) override {
    EXPECT_EQ(metrics.step, ++reported_);  // in order, and each once
    if (metrics.step == steps_) request_interrupt(SIGINT);
  }

 private:
  int64_t steps_, reported_ = 0;
};

class TrainerOnAGpu : public testing::TrainerTest {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    config_.device = to_string(testing::gpu_devices().front().device);
    config_.deterministic = true;  // so kernels are not timed
  }
};

TEST_F(TrainerOnAGpu, HasTheNumbersOfTheHost) {
  EXPECT_EQ(train("gpu"), RunEnd::finished);
  config_.device = "cpu";
  EXPECT_EQ(train("cpu"), RunEnd::finished);
  const auto there = read_metrics(run_folder("gpu").metrics()),
             here = read_metrics(run_folder("cpu").metrics());
  ASSERT_EQ(there.size(), 20U);
  ASSERT_EQ(here.size(), 20U);
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(there[i].epoch, here[i].epoch);
    EXPECT_EQ(there[i].lr, here[i].lr);
    EXPECT_NEAR(there[i].loss, here[i].loss, 1e-3 * here[i].loss + 1e-5) << i;
  }
}

TEST_F(TrainerOnAGpu, StoppedAnywhereItGoesOnToTheSameNumbers) {
  train("whole");
  for (const int64_t stop :
       testing::is_reduced() ? std::vector<int64_t>{7} : std::vector<int64_t>{1, 7, 10, 13}) {
    const std::string name = "stopped" + std::to_string(stop);
    {
      InterruptAfter reporter(stop);
      Trainer trainer(config_, run_folder(name), false, reporter);
      EXPECT_EQ(trainer.run(), RunEnd::interrupted);
      EXPECT_TRUE(trainer.saved());
      // Steps in progress are finished too.
      EXPECT_GE(trainer.steps(), stop);
      EXPECT_LE(trainer.steps(), stop + 3);
    }
    EXPECT_EQ(train(name, true), RunEnd::finished);
    EXPECT_EQ(metrics(name), metrics("whole")) << "stopped after step " << stop;
  }
}

TEST_F(TrainerOnAGpu, CheckpointsAreOfTheStepsThatWereAskedFor) {
  config_.checkpoint_every = {.steps = 4};
  config_.max_steps = 9;
  std::vector<int64_t> saved;
  Reporter nobody;
  Trainer trainer(config_, run_folder("a"), false, nobody);
  trainer.callbacks().on_checkpoint = [&](int64_t step, const auto&) { saved.push_back(step); };
  trainer.run();
  EXPECT_EQ(saved, (std::vector<int64_t>{4, 8, 9, 9})) << "before and after the last test";
  EXPECT_EQ(read_checkpoint(run_folder("a").checkpoint()).state.step, 9);
}

TEST_F(TrainerOnAGpu, ALossThatIsNoNumberIsOfItsStep) {
  config_.lr = 1e30;
  config_.schedule = "constant";
  std::string message;
  try {
    train("a");
    FAIL() << "the run did not stop";
  } catch (const Error& error) {
    message = error.what();
  }
  const auto steps = read_metrics(run_folder("a").metrics());
  for (const StepMetrics& step : steps) EXPECT_TRUE(std::isfinite(step.loss));
  EXPECT_NE(message.find("the loss of step " + std::to_string(steps.size() + 1) + " is"), std::string::npos)
      << message;
}

TEST_F(TrainerOnAGpu, ReplayChangesNothing) {
  train("replayed");
  const ScopedDisable off("replay");
  train("launched");
  EXPECT_EQ(metrics("replayed"), metrics("launched"));
}

}  // namespace
}  // namespace athanor
