// Kernels with little scratch memory, where a plan has no room for the fastest.
#include "athanor/compile/spare_scratch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "athanor/base/error.h"
#include "athanor/ops/ops.h"
#include "tests/runtime/tuning_fixture.h"

namespace athanor {
namespace {

constexpr size_t mib = size_t{1} << 20;

/// Candidates "a", "b" and "c" of a product take these seconds and MiB of scratch memory. A process times
/// them; the next one has a memory limit.
class SpareScratch : public testing::TuningTest<::testing::Test> {
 protected:
  void SetUp() override {
    TuningTest::SetUp();
    fake_.timer = [this](const std::string& name, int runs) { return runs * seconds_.at(name); };
    compile_options().deterministic = true;
    step(Tuning::off, size_t{1} << 30);
    compile_options().deterministic = before_.deterministic;
    bytes_ = static_cast<size_t>(last_plan()->planned_memory_bytes());
    fake_.scratch = {{"a", 0}, {"b", 8 * mib}, {"c", 2 * mib}};
  }
  void TearDown() override {
    compile_options() = before_;
    TuningTest::TearDown();
  }

  /// Multiplies with a limit of `room` bytes more than what the product takes with kernel "a".
  const PlanStep& step(Tuning tuning, size_t room) {
    compile_options().tuning = tuning;
    compile_options().memory_limit = static_cast<int64_t>(bytes_ + room);
    const Tensor x = Tensor::from(HostArray(DType::f32, {40, 64}), fake_.device()),
                 y = Tensor::from(HostArray(DType::f32, {64, 64}), fake_.device());
    (void)matmul(x, y).to_host();
    for (const PlanStep& one : last_plan()->steps)
      if (one.request) return one;
    throw Error(ErrorCode::value, "the plan has no product");
  }
  /// In a process of its own.
  const PlanStep& fresh(Tuning tuning, size_t room) {
    next_process();
    return step(tuning, room);
  }

  std::map<std::string, double> seconds_ = {{"a", 3e-3}, {"b", 1e-3}, {"c", 2e-3}};
  size_t bytes_ = 0;

 private:
  const CompileOptions before_ = compile_options();
};

TEST_F(SpareScratch, TheFastestKernelWithWhichThePlanFitsIsTaken) {
  EXPECT_EQ(fresh(Tuning::full, 9 * mib).kernel.name, "b");
  for (const Tuning tuning : {Tuning::off, Tuning::quick, Tuning::full}) {
    SCOPED_TRACE(to_string(tuning));
    EXPECT_EQ(fresh(tuning, 8 * mib).kernel.name, "b");
    EXPECT_EQ(fresh(tuning, 8 * mib - 1).kernel.name, "c");
    EXPECT_EQ(step(tuning, 8 * mib - 1).why, "little scratch memory, for the memory limit: b needs 8.00 MiB");
    EXPECT_EQ(fresh(tuning, 2 * mib - 1).kernel.name, "a");
    EXPECT_EQ(fresh(tuning, 0).kernel.name, "a");
    EXPECT_LE(last_plan()->planned_memory_bytes(), static_cast<int64_t>(bytes_));
  }
  EXPECT_EQ(fresh(Tuning::off, 9 * mib).kernel.name, "b") << "what a limit allowed is not remembered";
}

TEST_F(SpareScratch, WithoutTimingTheFirstCandidateThatFitsIsTaken) {
  fake_.names = {"b", "c", "a"};
  compile_options().deterministic = true;
  EXPECT_EQ(fresh(Tuning::full, 8 * mib).kernel.name, "b");
  EXPECT_EQ(fresh(Tuning::full, 2 * mib).kernel.name, "c");
  EXPECT_EQ(fresh(Tuning::full, 0).kernel.name, "a");
}

// A resumed run takes the kernels of the run, which are part of its checkpoint.
TEST_F(SpareScratch, TheChoiceIsUsedAgain) {
  fresh(Tuning::full, 9 * mib);
  fresh(Tuning::off, 2 * mib);
  const auto used = TuningCache::instance().used();
  ASSERT_EQ(used.size(), 1U);
  EXPECT_EQ(used.begin()->second, "c");
  clear_plan_cache();
  EXPECT_EQ(step(Tuning::full, 9 * mib).why, "little scratch memory, for the memory limit");
  next_process();
  TuningCache::instance().restore(used);
  EXPECT_EQ(step(Tuning::full, 9 * mib).kernel.name, "c");
  EXPECT_EQ(step(Tuning::full, 9 * mib).why, "as earlier in the run");
}

TEST_F(SpareScratch, PlansThatAreOnlyMadeChooseNothingForLater) {
  fresh(Tuning::full, 9 * mib);
  next_process();
  {
    const OnlyPlansScope only;
    compile_options().tuning = Tuning::off;
    compile_options().memory_limit = static_cast<int64_t>(bytes_ + 2 * mib);
    const auto given = [&](const Shape& shape) {
      return Tensor::placeholder({DType::f32, shape, fake_.device()});
    };
    const auto plan = plan_for({matmul(given({40, 64}), given({64, 64}))});
    EXPECT_EQ(plan->steps.back().kernel.name, "c");
    EXPECT_LE(plan->planned_memory_bytes(), compile_options().memory_limit);
  }
  clear_plan_cache();
  EXPECT_EQ(step(Tuning::off, 9 * mib).kernel.name, "b");
}

// The tuner does not try all candidates, and does not remember why one has no time.
TEST_F(SpareScratch, ACandidateWithoutATimeIsTaken) {
  fresh(Tuning::full, 9 * mib);
  const auto used = TuningCache::instance().used();
  auto winner = KernelCache::instance().find_winner(used.begin()->first);
  ASSERT_TRUE(winner);
  std::erase_if(winner->times, [](const auto& timed) { return timed.first != "b"; });
  KernelCache::instance().store_winner(used.begin()->first, *winner);
  EXPECT_EQ(fresh(Tuning::off, 8 * mib).kernel.name, "b");
  EXPECT_EQ(fresh(Tuning::off, 0).kernel.name, "a");
}

TEST_F(SpareScratch, AWrongCandidateIsNotTaken) {
  fake_.wrong = "a";
  fresh(Tuning::full, 9 * mib);
  EXPECT_EQ(fresh(Tuning::full, 2 * mib).kernel.name, "c");
}

}  // namespace
}  // namespace athanor
