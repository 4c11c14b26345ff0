// Tuning while a program runs, on a device whose clock the tests set.
#include "athanor/runtime/tuning_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "athanor/base/os/interrupt.h"
#include "athanor/ops/ops.h"
#include "tests/runtime/tuning_fixture.h"
#include "tests/support/left_mark.h"

namespace athanor {
namespace {

class Session : public testing::TuningTest<::testing::Test> {
 protected:
  void SetUp() override {
    TuningTest::SetUp();
    fake_.timer = [this](const std::string& name, int runs) {
      const double seconds = runs * (name == "b" ? 1e-3 : 2e-3);
      now_ += seconds;
      return seconds;
    };
  }

  static int64_t timed() { return TuningCache::instance().timed(); }

  Tensor numbers(const Shape& shape) const {
    HostArray array(DType::f32, shape);
    for (size_t i = 0; i < array.as<float>().size(); ++i)
      array.as<float>()[i] = 0.01F * static_cast<float>(i % 100);
    return Tensor::from(array, fake_.device());
  }

  /// A step of a program: one product. The clock advances by `seconds`.
  std::string step(double seconds = 0.2) {
    const Tensor product = matmul(numbers({40, 64}), numbers({64, 64}));
    result_ = product.to_host();
    now_ += seconds;
    return kernel();
  }
  static std::string kernel() {
    for (const PlanStep& one : last_plan()->steps)
      if (one.request) return one.kernel.name;
    return "none";
  }
  static std::string why() {
    for (const PlanStep& one : last_plan()->steps)
      if (one.request) return one.why;
    return "none";
  }

  /// Gives the compiling thread time to finish its work.
  static void let_compile() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  /// Runs steps until the session has nothing left to do. Returns the kernel of the last step.
  std::string step_to_the_end(TuningSession& session) {
    std::string runs;
    for (int i = 0; i < 1000 && !session.state().over; ++i) {
      let_compile();
      session.between_steps(last_plan());
      runs = step();
    }
    return runs;
  }

  /// From now on, notes which thread compiles each kernel first.
  void note_threads() {
    fake_.prepared = [this](const std::string& name) {
      const std::scoped_lock lock(mutex_);
      compiled_by_.emplace(name, std::this_thread::get_id());
    };
  }
  std::map<std::string, std::thread::id> compiled_by() {
    const std::scoped_lock lock(mutex_);
    return compiled_by_;
  }

  double now_ = 0;
  HostArray result_{DType::f32, {1}};

 private:
  std::mutex mutex_;
  std::map<std::string, std::thread::id> compiled_by_;
};

TEST_F(Session, TheFirstStepTimesNothing) {
  TuningSession session({}, [this] { return now_; });
  EXPECT_TRUE(session.between_steps(nullptr).empty());
  EXPECT_EQ(step(), "a");
  EXPECT_EQ(why(), "best guess");
  EXPECT_EQ(timed(), 0);
}

TEST_F(Session, TakesWhatIsFasterFromAStepOn) {
  TuningSession session({}, [this] { return now_; });
  std::string runs = step();
  std::vector<KernelChange> all;
  int finished = 0;
  for (int i = 0; i < 1000 && !session.state().over; ++i) {
    let_compile();
    const auto changes = session.between_steps(last_plan(), [&] { ++finished; });
    all.insert(all.end(), changes.begin(), changes.end());
    const std::string before = runs;
    runs = step();
    EXPECT_EQ(runs != before, !changes.empty()) << "a kernel changes where it is said, and nowhere else";
  }
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].before, "a");
  EXPECT_EQ(all[0].now, "b");
  EXPECT_NEAR(all[0].speedup, 2, 0.01);
  EXPECT_EQ(runs, "b");
  EXPECT_EQ(finished, 3) << "before each candidate the device had done all that it was given";
  EXPECT_EQ(session.state().timed, 1U);
  EXPECT_EQ(timed(), 1);

  next_process();
  EXPECT_EQ(step(), "b");
  EXPECT_EQ(timed(), 0) << "it is remembered";
}

TEST_F(Session, KeepsToItsBudget) {
  fake_.names = {"a", "b", "c", "d", "e", "f", "g", "h"};
  TuningSession session({.share = 0.1, .seconds = 0.5}, [this] { return now_; });
  const double begin = now_;
  step();
  double largest = 0, before = 0;
  for (int i = 0; i < 1000 && !session.state().over; ++i) {
    let_compile();
    session.between_steps(last_plan());
    const double spent = session.state().seconds;
    largest = std::max(largest, spent - before);
    before = spent;
    EXPECT_LE(spent, 0.1 * (now_ - begin) + largest) << "after step " << i;
    EXPECT_LE(spent, 0.5 + largest);
    step(0.02);
  }
  EXPECT_GT(before, 0);
}

TEST_F(Session, CompilesOnAnotherThread) {
  note_threads();
  TuningSession session({}, [this] { return now_; });
  step();
  step_to_the_end(session);
  auto first = compiled_by();
  ASSERT_EQ(first.size(), 3U);
  EXPECT_NE(first["b"], std::this_thread::get_id());
  EXPECT_NE(first["c"], std::this_thread::get_id());
}

// The request is for the run, which saves itself. An exception that leaves a thread would end the program.
TEST_F(Session, ARequestToStopDoesNotReachTheThreadsThatCompile) {
  const InterruptScope noted;
  const FinishScope goes_on;  // for this thread
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<int> compiled = 0;
  std::atomic<bool> left = false;
  fake_.prepared = [&](const std::string&) {
    if (std::this_thread::get_id() == own) return;
    ++compiled;
    request_interrupt(SIGINT);
    try {
      throw_if_interrupted();
    } catch (const Interrupted&) {
      left = true;
    }
  };
  TuningSession session({}, [this] { return now_; });
  step();
  step_to_the_end(session);
  request_interrupt(0);
  EXPECT_GT(compiled, 0);
  EXPECT_FALSE(left);
}

TEST_F(Session, AGuessThatIsWrongDoesNotRun) {
  fake_.wrong = "a";
  TuningSession session({}, [this] { return now_; });
  EXPECT_EQ(step(), "b");
  const HostArray here = result_;
  const Tensor x = numbers({40, 64}).to(Device{}), y = numbers({64, 64}).to(Device{});
  const HostArray right = matmul(x, y).to_host();  // perhaps by another kernel, which rounds differently
  EXPECT_THAT(here.as<float>(), ::testing::Pointwise(::testing::FloatNear(1e-3F), right.as<float>()));
}

TEST_F(Session, AWrongCandidateIsDroppedLater) {
  fake_.wrong = "b";
  TuningSession session({}, [this] { return now_; });
  step();
  for (int i = 0; i < 1000 && !session.state().over; ++i) {
    let_compile();
    EXPECT_TRUE(session.between_steps(last_plan()).empty());
    EXPECT_EQ(step(), "a");
  }
  EXPECT_EQ(timed(), 1);
}

TEST_F(Session, ABusyMachinesWinnerIsProvisional) {
  TuningSession session({}, [this] { return now_; });
  step();
  pretend_load(0.5);
  step_to_the_end(session);
  next_process();
  TuningSession next({}, [this] { return now_; });
  EXPECT_EQ(step(), "b");
  next.between_steps(last_plan());
  EXPECT_EQ(next.state().problems, 1U) << "it is timed again";
}

TEST_F(Session, WhatEndedTheProgramWhileItWasCompiledIsTriedOnceMore) {
  std::string problem;
  {
    TuningSession session({}, [this] { return now_; });
    step();
    for (const PlanStep& one : last_plan()->steps)
      if (one.request) problem = problem_key(one.device, *one.request);
  }
  testing::leave_mark("background|" + problem, "b");
  next_process();
  note_threads();
  TuningSession session({}, [this] { return now_; });
  step();
  EXPECT_EQ(step_to_the_end(session), "b");
  EXPECT_FALSE(KernelCache::instance().is_marked("background|" + problem, "b"));
  EXPECT_EQ(compiled_by()["b"], std::this_thread::get_id()) << "where the tuner's mark and watchdog are";
}

TEST_F(Session, NeighboursAreGuessedFrom) {
  {
    TuningSession session({}, [this] { return now_; });
    step();
    step_to_the_end(session);
  }
  next_process();
  TuningSession session({}, [this] { return now_; });
  eval({matmul(numbers({41, 64}), numbers({64, 64}))});
  EXPECT_EQ(kernel(), "b");
  EXPECT_THAT(why(), ::testing::StartsWith("as for "));
  EXPECT_EQ(timed(), 0);
}

}  // namespace
}  // namespace athanor
