#include "athanor/base/os/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace athanor {
namespace {

// A step that hangs, for example in a driver, never checks for a request to stop.
TEST(InterruptDeathTest, ASecondSignalEndsWhatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang_after = [](int first, int second, int pause_ms = 20) {
    const InterruptScope held;
    std::raise(first);
    std::thread([second, pause_ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      kill(getpid(), second);
    }).detach();
    for (;;) pause();
  };
  EXPECT_EXIT(hang_after(SIGINT, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(hang_after(SIGTERM, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(hang_after(SIGTERM, SIGTERM, 600), ::testing::KilledBySignal(SIGTERM), "");
}

// timeout(1) sends the signal twice: to the program, and to its group.
TEST(Interrupt, TwoTerminationsAtOnceAreOne) {
  const InterruptScope held;
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(interrupt_signal(), SIGTERM);
}

TEST(Interrupt, OneSignalIsOnlyNoted) {
  const InterruptScope held;
  std::raise(SIGTERM);
  EXPECT_EQ(interrupt_signal(), SIGTERM);
  EXPECT_THROW(throw_if_interrupted(), Interrupted);
  const FinishScope finishing;
  EXPECT_NO_THROW(throw_if_interrupted());
}

// In oneDNN's products, the stack pointer may point into the heap when a signal comes.
TEST(Interrupt, HandlesSignalsOnAStackOfTheirOwn) {
  static uintptr_t handled_at;
  struct sigaction before {
  }, during{}, after{};
  sigaction(SIGTERM, nullptr, &before);
  {
    const InterruptScope held;
    sigaction(SIGTERM, nullptr, &during);
    EXPECT_NE(during.sa_flags & SA_ONSTACK, 0);
    struct sigaction probe = during;
    // Not the address of a variable, because sanitizers keep variables elsewhere.
    probe.sa_handler = [](int) { handled_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); };
    sigaction(SIGTERM, &probe, nullptr);
    std::raise(SIGTERM);
    stack_t stack{};
    ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
    EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
    EXPECT_LT(handled_at - reinterpret_cast<uintptr_t>(stack.ss_sp), stack.ss_size);
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace athanor
