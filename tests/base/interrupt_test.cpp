#include "athanor/base/os/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace athanor {
namespace {

// A step that hangs, such as in a driver, never looks whether somebody asked to stop.
TEST(InterruptDeathTest, ASecondSignalEndsWhatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang_after = [](int first, int second) {
    const InterruptScope held;
    std::raise(first);
    std::thread([second] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      kill(getpid(), second);
    }).detach();
    for (;;) pause();
  };
  EXPECT_EXIT(hang_after(SIGINT, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(hang_after(SIGTERM, SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

TEST(Interrupt, OneSignalIsOnlyNoted) {
  const InterruptScope held;
  std::raise(SIGTERM);
  EXPECT_EQ(interrupt_signal(), SIGTERM);
  EXPECT_THROW(throw_if_interrupted(), Interrupted);
  const FinishScope finishing;
  EXPECT_NO_THROW(throw_if_interrupted());
}

}  // namespace
}  // namespace athanor
