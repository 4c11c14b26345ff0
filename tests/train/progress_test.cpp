#include "athanor/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

namespace athanor {
namespace {

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
  std::this_thread::sleep_for(std::chrono::milliseconds(110));  // lines are written over that seldom
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

}  // namespace
}  // namespace athanor
