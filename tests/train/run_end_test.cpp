#include "athanor/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "athanor/base/text.h"
#include "athanor/base/wrap.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string lines_at_end(const Summary& summary, int64_t steps_before, int columns = 120) {
  std::ostringstream out;
  Progress progress(out, {.columns = columns});
  RunFacts facts;
  facts.steps_before = steps_before;
  progress.started(facts);
  out.str({});
  progress.ended(summary);
  return out.str();
}

TEST(RunEnd, TimeAndSpeedDoNotContradict) {
  Summary summary;
  summary.steps = 100;
  summary.step_ms_median = 49.14;
  summary.per_second = 2604;
  summary.train_seconds = 102;
  summary.first_steps_seconds = 97;
  const std::string text = lines_at_end(summary, 0);
  EXPECT_THAT(text, HasSubstr("49.14 ms a step (median), 2,604 images a second"));
  EXPECT_THAT(text,
              HasSubstr("1m 42s for 100 steps, 1m 37s of it in the first, which chose and compiled kernels"));
  // If a run has several parts, this process knows only the first steps of its own.
  EXPECT_THAT(lines_at_end(summary, 90), HasSubstr("1m 42s for 100 steps, over all parts of the run"));
  summary.first_steps_seconds = 0.5;
  EXPECT_THAT(lines_at_end(summary, 0), HasSubstr("1m 42s for 100 steps\n"));
}

TEST(RunEnd, TellsWhatExaminingTheDeviceTook) {
  Summary summary;
  summary.steps = 100;
  summary.train_seconds = 102;
  EXPECT_THAT(lines_at_end(summary, 0), Not(HasSubstr("examine")));
  summary.device = "opencl:0";
  summary.examination_seconds = 11.3;
  EXPECT_THAT(lines_at_end(summary, 0),
              HasSubstr("before   11.3 s to examine opencl:0, which is done once\n"));
}

// Everything is wrapped except paths and commands, which people copy.
TEST(RunEnd, FitsTheTerminal) {
  Summary summary;
  summary.steps = 100;
  summary.per_second = 2604;
  summary.train_seconds = 102;
  summary.first_steps_seconds = 97;
  const std::string text = lines_at_end(summary, 0, 60);
  for (const std::string& line : split(text, '\n')) EXPECT_LE(text_columns(line), 60) << line;
  EXPECT_THAT(text, HasSubstr("kernels\n"));
  EXPECT_THAT(text, HasSubstr("\n         ")) << "further lines begin below the text";
  EXPECT_THAT(text, HasSubstr("plan.json\n"));
}

TEST(RunEnd, OfASingleStepHasNoSpeed) {
  Summary summary;
  summary.steps = 1;
  summary.train_seconds = summary.first_steps_seconds = 2;
  const std::string text = lines_at_end(summary, 0);
  EXPECT_THAT(text, HasSubstr("2.0 s for 1 step\n"));
  EXPECT_THAT(text, Not(HasSubstr("speed")));
}

TEST(RunEnd, AdvisesWhereBatchesCostTime) {
  Summary summary;
  summary.steps = 10;
  summary.train_seconds = 0.0077;
  summary.loader_wait_seconds = 0.003;
  summary.loader_wait_share = 0.4;
  EXPECT_THAT(lines_at_end(summary, 0), Not(HasSubstr("waiting for batches"))) << "of 3 ms";
  summary.train_seconds = 100;
  summary.loader_wait_seconds = 40;
  EXPECT_THAT(lines_at_end(summary, 0),
              HasSubstr("40 % of the time was spent waiting for batches: try --workers 2"));
  summary.loader_wait_share = 0.02;
  EXPECT_THAT(lines_at_end(summary, 0), Not(HasSubstr("waiting for batches")));
}

}  // namespace
}  // namespace athanor
