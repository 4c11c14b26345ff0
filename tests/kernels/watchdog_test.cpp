#include "athanor/kernels/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/crowded_core.h"

namespace athanor {
namespace {

using std::chrono::milliseconds;

TEST(WatchdogDeathTest, EndsWhatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    const Watchdog watchdog("trying the kernel 'b'", milliseconds(300));
    std::this_thread::sleep_for(std::chrono::minutes(1));
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(1), "trying the kernel 'b' has not come back for 0.3 s");
}

// The other process may have been stopped (Ctrl-Z) while it compiled the same kernel.
TEST(Watchdog, DoesNotCountWaitingForAnotherProcess) {
  const Watchdog watchdog("trying the kernel 'b'", milliseconds(300));
  const Watchdog::Pause waits;
  std::this_thread::sleep_for(milliseconds(900));
}

#ifdef __linux__
// As for a compiler on a busy machine.
TEST(Watchdog, CountsLittleOfTheTimeWithoutACore) {
  const testing::CrowdedCore crowded;
  const Watchdog watchdog("compiling the kernel 'b'", milliseconds(300));
  std::this_thread::sleep_for(milliseconds(900));
}
#endif

}  // namespace
}  // namespace athanor
