// Runs whose kernels change meanwhile, on a device whose fastest kernel rounds differently, so that a
// step's numbers show which kernels it ran.
#include "athanor/train/run_tuning.h"

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "athanor/base/os/interrupt.h"
#include "tests/runtime/tuning_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class RunTuningTest : public testing::TuningTest<testing::TrainerTest> {
 protected:
  void SetUp() override {
    TuningTest::SetUp();
    fake_.timer = [](const std::string& name, int runs) { return runs * (name == "b" ? 1e-3 : 2e-3); };
    fake_.kind = "gpu";  // so compiling does not take its cores
    fake_.wrong = "b";
    fake_.wrong_by = 1e-6F;  // as with another order of additions
    config_.device = to_string(fake_.device());
    config_.epochs = 100;
    config_.schedule = "constant";
    config_.max_steps = 400;
    config_.eval_examples = 4;
    config_.checkpoint_every = {.steps = 7};
  }

  KernelRecord record(const std::string& name) const {
    return record_in(read_metrics(run_folder(name).metrics()));
  }
};

// Copies the run's folder as it would be if the process were killed some steps after a change of kernels.
class Killed final : public Reporter {
 public:
  Killed(RunFolder run, RunFolder copy) : run_(std::move(run)), copy_(std::move(copy)) {}
  void tuned(const TuningFacts& facts) override {
    if (!facts.changes.empty() && at_ == 0) at_ = facts.step + 3;
  }
  void stepped(const StepMetrics& metrics, double) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that the tuning budget grows in time
    if (metrics.step != at_) return;
    saved_ = read_checkpoint(run_.checkpoint()).state.step;
    std::filesystem::copy(run_.path, copy_.path);
    std::filesystem::remove(copy_.lock());
  }
  int64_t at() const { return at_; }
  int64_t saved() const { return saved_; }

 private:
  RunFolder run_, copy_;
  int64_t at_ = 0, saved_ = 0;
};

TEST_F(RunTuningTest, KernelsChangeAtRecordedStepsAndTheRecordGivesTheSameBits) {
  Killed reporter(run_folder("whole"), run_folder("killed"));
  Trainer(config_, run_folder("whole"), false, reporter).run();
  const KernelRecord changes = record("whole");
  ASSERT_TRUE(changes.contains(1));
  for (const auto& [request, kernel] : changes.at(1)) EXPECT_EQ(kernel, "a") << request;
  ASSERT_GT(changes.size(), 1U) << "nothing was tuned";
  const auto checkpoint = read_checkpoint(run_folder("whole").checkpoint());
  EXPECT_THAT(checkpoint.kernels, ::testing::Contains(::testing::Pair(::testing::_, "b")));
  EXPECT_GT(summary("whole")["tuned"], 0);

  // A run that does not repeat another one takes the kernels remembered now.
  next_process();
  train("other");
  EXPECT_NE(metrics("other"), metrics("whole"));

  next_process();
  config_.choices = run_folder("whole").path.string();
  train("repeated");
  EXPECT_EQ(metrics("repeated"), metrics("whole"));
  EXPECT_EQ(summary("repeated")["test_loss"], summary("whole")["test_loss"]);
  config_.choices = run_folder("whole").metrics().string();
  next_process();
  train("repeated from metrics");
  EXPECT_EQ(metrics("repeated from metrics"), metrics("whole"));

  // A repeated run that stops before the last change makes the missing changes after it is resumed.
  config_.choices = run_folder("whole").path.string();
  config_.max_steps = changes.rbegin()->first - 1;
  next_process();
  train("stopped");
  config_.max_steps = 400;
  next_process();
  train("stopped", true);
  EXPECT_EQ(metrics("stopped"), metrics("whole"));
  config_.choices.clear();

  // A killed run takes the recorded kernels for the steps that it lost.
  ASSERT_GT(reporter.at(), 0);
  EXPECT_LT(reporter.saved(), reporter.at());
  config_.max_steps = reporter.at() - 1;
  next_process();
  train("killed", true);
  const std::string whole = metrics("whole"), again = metrics("killed");
  EXPECT_EQ(whole.substr(0, again.size()), again);
}

// The change that came with the interrupt may be in force or not; the run continues as its record says.
TEST_F(RunTuningTest, AnInterruptedRunGoesOnWithItsKernels) {
  struct Interrupts : Reporter {
    void tuned(const TuningFacts& facts) override {
      if (facts.changes.empty() || at > 0) return;
      at = facts.step;
      request_interrupt(SIGINT);
    }
    void stepped(const StepMetrics&, double) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    int64_t at = 0;
  } reporter;
  {
    Trainer trainer(config_, run_folder("a"), false, reporter);
    EXPECT_EQ(trainer.run(), RunEnd::interrupted);
    EXPECT_TRUE(trainer.saved());
    ASSERT_GT(reporter.at, 0);
    EXPECT_GE(trainer.steps(), reporter.at - 1);
  }
  next_process();
  config_.tune = "off";
  config_.max_steps = reporter.at + 20;
  train("a", true);
  next_process();
  config_.choices = run_folder("a").path.string();
  train("repeated");
  EXPECT_EQ(metrics("repeated"), metrics("a"));
}

TEST_F(RunTuningTest, TellsAtTheStartWhatThereIsToTime) {
  struct First : Reporter {
    void tuned(const TuningFacts& facts) override {
      if (at < 0) at = facts.step, problems = facts.state.problems;
    }
    int64_t at = -1;
    size_t problems = 0;
  } reporter;
  config_.max_steps = 3;
  Trainer(config_, run_folder("a"), false, reporter).run();
  EXPECT_TRUE(reporter.at == 1 || reporter.at == 2) << reporter.at;
  EXPECT_GT(reporter.problems, 0U);
}

TEST_F(RunTuningTest, ARecordThatDoesNotFitIsRefused) {
  config_.max_steps = 3;
  config_.tune = "off";
  train("a");
  next_process();
  config_.choices = run_folder("a").path.string();
  fake_.names = {"c", "d"};  // those of another version
  expect_error(ErrorCode::value, {"has the kernel 'a' for batch_matmul"}, [&] { train("b"); });
  fake_.names = {"a", "b", "c"};
  config_.choices = (folder_ / "data").string();
  expect_error(ErrorCode::io, {"metrics.jsonl"}, [&] { train("c"); });
}

TEST_F(RunTuningTest, OffNeverTimesAndFullTimesFirst) {
  config_.max_steps = 40;
  config_.tune = "off";
  train("off");
  EXPECT_EQ(TuningCache::instance().timed(), 0);
  EXPECT_EQ(record("off").size(), 1U);
  next_process();
  config_.tune = "full";
  train("full");
  EXPECT_GT(TuningCache::instance().timed(), 0);
  EXPECT_EQ(record("full").size(), 1U);
  const auto changes = record("full");
  for (const auto& [request, kernel] : changes.at(1)) EXPECT_EQ(kernel, "b") << request;
  next_process();
  config_.tune = "off";
  train("remembered");
  EXPECT_EQ(metrics("remembered"), metrics("full")) << "what is remembered is not timed again";
  next_process();
  config_.deterministic = true;
  train("deterministic");
  EXPECT_EQ(metrics("deterministic"), metrics("off")) << "whatever was timed meanwhile";
}

TEST_F(RunTuningTest, ResumedRunsKeepTheirKernels) {
  config_.max_steps = 20;
  config_.tune = "off";
  train("whole");
  config_.max_steps = 9;
  next_process();
  train("parts");
  next_process();
  config_.tune = "full";
  config_.max_steps = 5;
  train("tunes");  // another process finds faster kernels
  next_process();
  config_.tune = "off";
  config_.max_steps = 20;
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

// The same on devices with real kernels: a step takes another candidate than the previous step.
class RecordsOnDevices : public testing::TrainerTest {
 protected:
  void TearDown() override { reset_evaluation_stats(); }
  void repeat_on(const std::string& device) {
    config_.device = device;
    config_.deterministic = true;
    config_.max_steps = 12;
    config_.eval_examples = 4;
    struct Look : Reporter {
      void stepped(const StepMetrics& metrics, double) override {
        if (metrics.step == 1) plan = last_plan();
      }
      std::shared_ptr<const Plan> plan;
    } look;
    Trainer(config_, run_folder("plain"), false, look).run();
    std::vector<StepMetrics> steps = read_metrics(run_folder("plain").metrics());
    std::string line;
    StepKernels change;
    for (const PlanStep& one : look.plan->steps) {
      if (!one.request) continue;
      for (const Candidate& candidate : backend_of(one.device).candidates(one.device.index, *one.request))
        if (candidate.name != one.kernel.name) change[one.request->key()] = candidate.name;
      if (!change.empty()) break;
    }
    ASSERT_FALSE(change.empty()) << "no request has two candidates";
    steps[5].kernels = change;
    for (const StepMetrics& step : steps) line += to_line(step) + '\n';
    write_file_atomically(folder_ / "record.jsonl", line);
    config_.deterministic = false;
    config_.choices = (folder_ / "record.jsonl").string();
    for (const char* name : {"once", "twice"}) {
      TuningCache::instance().start_anew();
      clear_plan_cache();
      train(name);
    }
    const auto once = read_metrics(run_folder("once").metrics());
    ASSERT_EQ(once.size(), 12U);
    EXPECT_EQ(once[5].kernels, change);
    EXPECT_EQ(metrics("once"), metrics("twice"));
    TuningCache::instance().start_anew();
    clear_plan_cache();
  }
};

TEST_F(RecordsOnDevices, AreRepeatedOnTheCpu) { repeat_on("cpu"); }

TEST_F(RecordsOnDevices, AreRepeatedOnAGpu) {
  ATHANOR_NEEDS_GPU();
  repeat_on(to_string(testing::gpu_devices().front().device));
}

}  // namespace
}  // namespace athanor
