#include "athanor/kernels/watchdog.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace athanor {
namespace {

constexpr std::chrono::seconds patience{60};

}  // namespace

Watchdog::Watchdog(std::string what)
    : thread_([this, what = std::move(what)] {
        std::unique_lock lock(mutex_);
        if (over_.wait_for(lock, patience, [this] { return called_off_; })) return;
        fmt::print(
            stderr,
            "athanor: error: {} has not come back for {} s. It is marked, and will not be tried again: "
            "run the same command once more.\n",
            what, patience.count());
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
