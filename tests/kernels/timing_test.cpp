// How samples of times are evaluated, with series like those of real machines. No clock is read.
#include "athanor/kernels/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace athanor {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

Samples samples_of(std::initializer_list<double> seconds) {
  Samples samples;
  for (const double one : seconds) samples.add(one);
  return samples;
}

/// A kernel on a core that it shares with a process that never waits: they take turns of 4 ms.
class SharedCore {
 public:
  explicit SharedCore(double kernel_seconds) : kernel_(std::llround(kernel_seconds * 1e9)) {}
  double operator()(int runs) {
    const int64_t start = now_;
    for (int64_t left = kernel_ * runs; left > 0;) {
      if (now_ / turn % 2 == 1) now_ = (now_ / turn + 1) * turn;  // the other process's turn
      const int64_t ran = std::min(left, turn - now_ % turn);
      now_ += ran;
      left -= ran;
    }
    return static_cast<double>(now_ - start) * 1e-9;
  }

 private:
  static constexpr int64_t turn = 4'000'000;  // nanoseconds
  int64_t kernel_, now_ = turn - 1000;        // near the end of a turn, so the first run is interrupted
};

TEST(Samples, AreSteadyOnAMachineOfOnesOwn) {
  const Samples quiet = samples_of({1.00, 1.01, 1.02, 1.00, 1.01});
  EXPECT_DOUBLE_EQ(quiet.seconds(), 1.00);
  EXPECT_NEAR(quiet.spread(), 0.01, 1e-9);
}

TEST(Samples, OfABusyMachineGiveTheTimeBetweenDisturbances) {
  const Samples busy = samples_of({9, 1.01, 5, 1.00, 7, 4, 6, 1.02});
  EXPECT_DOUBLE_EQ(busy.seconds(), 1.01);
  EXPECT_GT(busy.spread(), wide_spread);
}

TEST(Samples, OfTwoKindsAreWide) {
  const Samples two = samples_of({1, 2, 1, 2, 2, 1, 2, 2});
  EXPECT_DOUBLE_EQ(two.seconds(), 1);
  EXPECT_DOUBLE_EQ(two.spread(), 1);
}

TEST(Samples, AreNotTakenInByOneThatIsTooShort) {
  EXPECT_DOUBLE_EQ(samples_of({3, 3, 3, 0.1, 3, 3, 3, 3}).seconds(), 3);
}

TEST(TakeSamples, FindsAShortKernelsTimeBesideABusyProcess) {
  for (const double kernel : {2e-6, 24e-6, 300e-6}) {
    SharedCore core(kernel);
    const Samples samples = take_samples(std::ref(core), no_limit);
    EXPECT_NEAR(samples.seconds(), kernel, 0.02 * kernel);
  }
}

TEST(TakeSamples, IsDoneSoonWhereSamplesAgree) {
  double spent = 0;
  int calls = 0;
  const Samples samples = take_samples(
      [&](int runs) {
        ++calls;
        spent += runs * 24e-6;
        return runs * 24e-6;
      },
      no_limit);
  EXPECT_NEAR(samples.seconds(), 24e-6, 1e-9);
  EXPECT_LE(calls, 6);
  EXPECT_LT(spent, 0.01);
}

TEST(TakeSamples, TimesLongKernelsFewTimes) {
  int runs_in_all = 0;
  take_samples([&](int runs) { return runs_in_all += runs, runs * 0.5; }, no_limit);
  EXPECT_EQ(runs_in_all, 1);
  runs_in_all = 0;
  take_samples([&](int runs) { return runs_in_all += runs, runs * 0.01; }, no_limit);
  EXPECT_EQ(runs_in_all, 6);
}

TEST(TakeSamples, GivesUpWhatIsSlowButNotWhatWasDisturbedOnce) {
  int calls = 0;
  const Samples slow = take_samples([&](int runs) { return ++calls, runs * 1e-3; }, 1e-4);
  EXPECT_EQ(slow.count(), 1U);
  EXPECT_LE(calls, 4);
  SharedCore core(24e-6);  // its first run takes 4 ms
  EXPECT_NEAR(take_samples(std::ref(core), 48e-6).seconds(), 24e-6, 1e-6);
}

TEST(LoadMeter, WatchesWork) {
  LoadMeter meter;
  EXPECT_EQ(meter.share(), 0);
  int calls = 0;
  meter.during([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_GE(meter.share(), 0);
  pretend_load(0.5);
  EXPECT_EQ(meter.share(), 0.5);
  pretend_load({});
}

}  // namespace
}  // namespace athanor
