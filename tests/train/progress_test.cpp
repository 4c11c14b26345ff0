#include "athanor/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

namespace athanor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunFacts facts() {
  RunFacts facts;
  facts.test_count = 100;
  facts.steps_in_all = 10;
  return facts;
}

TEST(Progress, ShowsWhatIsWaitedForOnATerminal) {
  std::ostringstream out;
  Progress progress(out, {.interactive = true});
  std::this_thread::sleep_for(std::chrono::milliseconds(110));  // a line is not rewritten more often
  progress.waiting("timing kernels", "2 of 4 for conv2d");
  EXPECT_THAT(out.str(), HasSubstr("\r"));
  EXPECT_THAT(out.str(), HasSubstr("timing kernels, 2 of 4 for conv2d"));
}

TEST(Progress, SaysOffATerminalThatItCompilesAndNotEachKernel) {
  std::ostringstream out;
  Progress progress(out, {.interactive = false});
  progress.started(facts());
  EXPECT_THAT(out.str(), HasSubstr("compiling the training step"));
  progress.waiting("timing kernels", "2 of 4 for conv2d");
  progress.tested(20, 100);
  EXPECT_THAT(out.str(), Not(HasSubstr("conv2d"))) << "a line in ten seconds";
  EXPECT_THAT(out.str(), Not(HasSubstr("20 of")));
}

TEST(Progress, SaysHowLongTheRunIs) {
  const auto said = [](const RunFacts& run) {
    std::ostringstream out;
    Progress(out, {.interactive = false}).started(run);
    return out.str();
  };
  RunFacts run = facts();
  run.config.epochs = 2;
  run.steps_in_epoch = 5;
  EXPECT_THAT(said(run), HasSubstr("2 epochs of 5 steps,"));
  run.steps_in_all = 7;  // --max-steps 7
  EXPECT_THAT(said(run), HasSubstr("7 steps (an epoch has 5),"));
}

TEST(Progress, SaysWhatIsTrained) {
  const auto said = [](int64_t trained, const std::string& freeze) {
    RunFacts run = facts();
    run.parameters = 5000, run.trained = trained, run.config.freeze = freeze;
    std::ostringstream out;
    Progress(out, {.interactive = false}).started(run);
    return out.str();
  };
  EXPECT_THAT(said(1200, "conv1.*"),
              AllOf(HasSubstr("5,000 parameters, 1,200 of them trained\n"), HasSubstr("frozen  conv1.*\n")));
  EXPECT_THAT(said(5000, ""), AllOf(HasSubstr("5,000 parameters\n"), Not(HasSubstr("frozen"))));
}

TEST(Progress, SaysThatAnOptionHasNoEffect) {
  RunFacts run = facts();
  run.offload_note = "--offload has no effect: cpu uses the host's memory";
  std::ostringstream out;
  Progress(out, {.interactive = false}).started(run);
  EXPECT_THAT(out.str(), HasSubstr("state   --offload has no effect: cpu uses the host's memory\n"));
}

TEST(Progress, ShowsHowFarTestingIs) {
  std::ostringstream out;
  Progress progress(out, {.interactive = true});
  progress.started(facts());
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  out.str({});
  progress.tested(20, 100);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("testing"), HasSubstr("20 images")));
}

TEST(Progress, SaysWhatTimingBeforeTheFirstStepTook) {
  std::ostringstream out;
  Progress progress(out, {.interactive = false});
  progress.started(facts());
  progress.compiled({.compile_seconds = 2.5, .timing_seconds = 2, .problems_timed = 12, .kernels = 30});
  EXPECT_THAT(out.str(), HasSubstr("in 2.5 s, 2.0 s of it timing kernels for 12 problems: 30"));
}

TEST(Progress, NamesLibrariesThatAreMissing) {
  std::ostringstream out;
  Progress progress(out, {.interactive = false});
  progress.started(facts());
  progress.compiled({.libraries = {"cuBLASLt 13.1.0", "no cuDNN: it is not installed"}});
  EXPECT_THAT(out.str(), HasSubstr("Libraries: cuBLASLt 13.1.0; no cuDNN: it is not installed\n"));
}

TEST(Progress, ShowsHowFarTuningIs) {
  std::ostringstream out;
  Progress progress(out, {.interactive = true});
  RunFacts run = facts();
  progress.started(run);
  int64_t number = 0;
  // Makes one more step, and returns what it printed.
  const auto shown = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    out.str({});
    StepMetrics metrics;
    metrics.step = ++number;
    progress.stepped(metrics, 0.1);
    return out.str();
  };
  shown();  // the first step compiles
  EXPECT_THAT(shown(), AllOf(HasSubstr("ETA"), Not(HasSubstr("tuning"))));
  progress.tuned({.step = 3, .changes = {}, .state = {.problems = 5, .timed = 2}});
  EXPECT_THAT(shown(), HasSubstr("tuning 2/5"));
  out.str({});
  progress.tuned({.step = 4,
                  .changes = {{"conv2d 3x3", "direct", "tile_conv", 1.5}},
                  .state = {.problems = 5, .timed = 3}});
  EXPECT_THAT(out.str(),
              HasSubstr("from step 4 on: conv2d by tile_conv, 1.50 times as fast (3 of 5 problems timed)"));
  EXPECT_THAT(shown(), HasSubstr("tuning 3/5"));
  progress.tuned({.step = 5, .changes = {}, .state = {.problems = 5, .timed = 5, .over = true}});
  EXPECT_THAT(shown(), AllOf(HasSubstr("ETA"), Not(HasSubstr("tuning"))));
}

TEST(Progress, CountsSkippedStepsOfTheWholeRun) {
  std::ostringstream out;
  Progress progress(out, {.interactive = true, .columns = 200});
  int64_t number = 0;
  // Makes one more step, and returns what it printed.
  const auto shown = [&](bool skipped) {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    out.str({});
    StepMetrics metrics;
    metrics.step = ++number, metrics.loss_scale = 1024, metrics.skipped = skipped;
    progress.stepped(metrics, 0.1);
    return out.str();
  };
  RunFacts run = facts();
  progress.started(run);
  shown(false);  // the first step compiles
  EXPECT_THAT(shown(false), AllOf(HasSubstr("ETA"), Not(HasSubstr("skipped"))));
  EXPECT_THAT(shown(true), HasSubstr("  1 skipped  ETA"));
  EXPECT_THAT(shown(false), HasSubstr("  1 skipped  ETA")) << "it stays";
  StepMetrics hidden;
  hidden.step = ++number, hidden.skipped = true;
  progress.stepped(hidden, 0.1);  // too early for a new line
  EXPECT_THAT(shown(false), HasSubstr("  2 skipped  ETA"));

  run.steps_before = 5, run.skipped_before = 3;
  std::ostringstream later;
  Progress resumed(later, {.interactive = true, .columns = 200});
  resumed.started(run);
  for (const bool skipped : {false, true}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    StepMetrics metrics;
    metrics.step = 6, metrics.skipped = skipped;
    resumed.stepped(metrics, 0.1);
  }
  EXPECT_THAT(later.str(), HasSubstr("  4 skipped  ETA")) << "with those before";
}

}  // namespace
}  // namespace athanor
