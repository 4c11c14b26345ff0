#include "athanor/train/run_threads.h"

#include <chrono>
#include <optional>
#include <thread>

#include "athanor/base/os/threads.h"
#include "athanor/base/threads.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

TEST(FreeCores, LosesAThreadAfterThreeLooksAndGetsItBackAfterTen) {
  FreeCores free(2, 2);
  EXPECT_EQ(free(0.6), 2);
  EXPECT_EQ(free(0.6), 2);
  EXPECT_EQ(free(0.6), 1);
  for (int look = 0; look < 5; ++look) EXPECT_EQ(free(1.0), 1);
  for (int look = 0; look < 9; ++look) EXPECT_EQ(free(0.1), 1);
  EXPECT_EQ(free(0.1), 2);
}

TEST(FreeCores, IsNotMovedByWhatDoesNotLast) {
  FreeCores free(4, 4);
  for (int look = 0; look < 20; ++look) EXPECT_EQ(free(look % 3 == 0 ? 0.0 : 3.0), 4);
  for (int look = 0; look < 20; ++look) EXPECT_EQ(free(0.3), 4);
}

TEST(FreeCores, TakesTheLeastChangeThatAllLooksWant) {
  FreeCores free(8, 8);
  free(4.0), free(2.0);
  EXPECT_EQ(free(6.0), 6);
  for (int look = 0; look < 9; ++look) free(look == 4 ? 1.0 : 0.0);
  EXPECT_EQ(free(0.0), 7);
}

TEST(FreeCores, LeavesAThread) {
  FreeCores free(2, 2);
  EXPECT_EQ(free.at_once(64), 1);
  EXPECT_EQ(free.at_once(0), 1);  // with one thread, a run waits until it may have more
}

class RunThreadsTest : public testing::TrainerTest {
 protected:
  RunThreadsTest() {
    config_.threads = 0;
    config_.device = "cpu";
    set_cpu_threads(0);
  }
  ~RunThreadsTest() override { set_cpu_threads(0); }
};

// The first look is early, so that a short run next to a busy program is not slower than a long one.
TEST_F(RunThreadsTest, LooksAtTheMachineBeforeTheFirstStep) {
  if (cpu_threads() == 1) GTEST_SKIP() << "needs two cores";
  const int most = cpu_threads();
  double all = 100;
  RunThreads threads(config_, Device{}, 0, 0, [&] { return os::CoreTime{.all = all, .own = 50}; });
  EXPECT_EQ(threads.most(), most);
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  all += 1000;  // more time than all cores have
  Reporter nobody;
  int settled = 0;
  EXPECT_TRUE(threads.before_step(1, nobody, [&] { ++settled; }));
  EXPECT_EQ(settled, 1);
  EXPECT_EQ(cpu_threads(), 1);
  if (os::current_core() >= 0) {
    EXPECT_EQ(part_time_threads(), most - 1);
  }
  EXPECT_EQ(threads.news(), 1);
  EXPECT_FALSE(threads.before_step(2, nobody, [&] { ++settled; }));
  EXPECT_EQ(threads.news(), 0);
}

// Two programs that share their cores with part-time threads use little more than one core, but want two.
TEST_F(RunThreadsTest, CountsProgramsThatShareACoreWithAPartTimeThread) {
  if (os::current_core() < 0 || cpu_threads() == 1) GTEST_SKIP() << "no part-time threads here";
  const auto began = Clock::now();
  RunThreads threads(config_, Device{}, 4, 4, [&] {
    const double passed = seconds_since(began);
    return os::CoreTime{.all = 4 * passed, .own = 2.86 * passed, .unnoticed = 0.8 * passed};
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  Reporter nobody;
  EXPECT_TRUE(threads.before_step(1, nobody, [] {}));
  EXPECT_EQ(cpu_threads(), 2);
  EXPECT_EQ(part_time_threads(), 2);
}

TEST_F(RunThreadsTest, LeavesTheNumberAloneWhereItIsAskedForOrKernelsMustNotChange) {
  const auto looks = [&](const TrainConfig& config) {
    bool looked = false;
    const RunThreads threads(config, Device{}, 0, 0, [&] {
      looked = true;
      return std::nullopt;
    });
    set_cpu_threads(0);
    return looked;
  };
  EXPECT_EQ(looks(config_), cpu_threads() > 1);
  TrainConfig fixed = config_;
  fixed.threads = 2;
  EXPECT_FALSE(looks(fixed));
  fixed = config_;
  fixed.memory_limit = int64_t{1} << 30;  // a step that fits might no longer
  EXPECT_FALSE(looks(fixed));
  fixed = config_;
  fixed.deterministic = true;
  settle_tuning(fixed);
  EXPECT_FALSE(looks(fixed));
  fixed = config_;
  fixed.choices = "another";
  settle_tuning(fixed);
  EXPECT_FALSE(looks(fixed));
  fixed = config_;
  fixed.tune = "off";
  EXPECT_FALSE(looks(fixed));
}

// The loss of each step, of a CNN: its loops are large enough to be divided.
TEST_F(RunThreadsTest, PartTimeThreadsChangeNoBit) {
  if (cpu_threads() == 1) GTEST_SKIP() << "needs two cores";
  config_.model = "cnn";
  config_.deterministic = true;
  config_.batch_size = 64;
  config_.epochs = 12;
  config_.threads = 1;
  train("one");
  EXPECT_EQ(part_time_threads(), 0);
  config_.threads = 0;
  config_.choices = run_folder("one").metrics().string();
  train("helped");
  EXPECT_EQ(cpu_threads(), 1);
  if (os::current_core() >= 0) {
    EXPECT_GT(part_time_threads(), 0);
  }
  EXPECT_EQ(metrics("helped"), metrics("one"));
}

// The recorded steps are repeated twice, and by a run that stops between two changes and is resumed.
TEST_F(RunThreadsTest, AnotherRunsChangesAreRepeatedToTheBit) {
  if (cpu_threads() == 1) GTEST_SKIP() << "needs two cores";
  config_.deterministic = true;
  config_.max_steps = 16;
  config_.threads = 1;
  train("one");
  config_.threads = 0;
  train("first");
  std::vector<StepMetrics> steps = read_metrics(run_folder("first").metrics());
  ASSERT_EQ(steps.size(), 16U);
  EXPECT_EQ(threads_in(steps), (ThreadRecord{{1, cpu_threads()}}));
  steps[4].threads = 1;
  steps[4].kernels = read_metrics(run_folder("one").metrics()).front().kernels;
  steps[11].threads = steps[0].threads;
  steps[11].kernels = steps[0].kernels;
  std::string record;
  for (const StepMetrics& step : steps) record += to_line(step) + "\n";
  const auto file = folder_ / "record.jsonl";
  write_file_atomically(file, record);

  config_.choices = file.string();
  train("repeated");
  const auto repeated = read_metrics(run_folder("repeated").metrics());
  EXPECT_EQ(threads_in(repeated), threads_in(steps));
  train("again");
  EXPECT_EQ(metrics("again"), metrics("repeated"));
  config_.max_steps = 8;
  train("stopped");
  config_.max_steps = 16;
  train("stopped", true);
  EXPECT_EQ(metrics("stopped"), metrics("repeated"));
}

}  // namespace
}  // namespace athanor
