#include "athanor/kernels/watchdog.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "athanor/base/os/load.h"

namespace athanor {
namespace {

std::atomic<int> pauses{0};

}  // namespace

Watchdog::Pause::Pause() { ++pauses; }
Watchdog::Pause::~Pause() { --pauses; }

Watchdog::Watchdog(std::string what, std::chrono::milliseconds patience)
    : thread_([this, what = std::move(what), patience] {
        std::unique_lock lock(mutex_);
        const std::chrono::duration<double> turn = patience / 60., all = patience;
        os::FairTime fair;  // compiling on a busy machine is slow, but does not hang
        for (double passed = 0; passed < all.count();) {
          if (over_.wait_for(lock, turn, [this] { return called_off_; })) return;
          const double counts = fair.of(turn.count());
          if (pauses == 0) passed += counts;
        }
        fmt::print(
            stderr,
            "athanor: error: {} has not come back for {:g} s. It is marked, and will not be tried again: "
            "run the same command once more.\n",
            what, std::chrono::duration<double>(patience).count());
        std::_Exit(1);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    called_off_ = true;
  }
  over_.notify_all();
  thread_.join();
}

}  // namespace athanor
