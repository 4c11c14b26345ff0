#include "athanor/backends/gpu/wait_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "athanor/base/clock.h"

namespace athanor::gpu {

/// A thread that looks at all waits from time to time.
class WaitMonitor {
 public:
  static WaitMonitor& instance() {
    static WaitMonitor& monitor =
        *new WaitMonitor;  // never destroyed: its thread runs until the process ends
    return monitor;
  }

  void begin(LimitedWait& wait) {
    const std::scoped_lock lock(mutex_);
    waits_.push_back(&wait);
    constexpr double least = 0.01, most = 5, parts = 20;
    const double period = std::clamp(wait.limit_ / parts, least, most);
    if (period >= period_) return;
    period_ = period;
    if (started_) return shorter_.notify_one();
    started_ = true;
    std::thread([this] { watch(); }).detach();
  }

  void end(LimitedWait& wait) {
    const std::scoped_lock lock(mutex_);
    waits_.erase(std::ranges::find(waits_, &wait));
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    for (auto last = Clock::now();;) {
      shorter_.wait_for(lock, std::chrono::duration<double>(period_));
      // A process that was stopped for a while comes back late: that time does not count.
      const double passed = std::min(seconds_since(last), 2 * period_);
      last = Clock::now();
      for (LimitedWait* wait : waits_)
        if ((wait->waited_ += passed) > wait->limit_) {
          fmt::print(stderr, "athanor: error: {}\n", wait->tell_().what());
          std::_Exit(1);
        }
    }
  }

  std::mutex mutex_;
  std::condition_variable shorter_;
  std::vector<LimitedWait*> waits_;
  double period_ = 1e9;
  bool started_ = false;
};

double wait_limit(bool on_host_processor) {
  constexpr double ten_minutes = 600;
  const char* const text = std::getenv("ATHANOR_WAIT_LIMIT");
  if (text == nullptr || *text == 0) return on_host_processor ? 0 : ten_minutes;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != 0 || !(seconds >= 0))
    throw Error(ErrorCode::usage,
                fmt::format("ATHANOR_WAIT_LIMIT is '{}', which is not a number of seconds", text));
  return seconds;
}

LimitedWait::LimitedWait(double seconds, Tell tell) : limit_(seconds), tell_(std::move(tell)) {
  if (limit_ > 0) WaitMonitor::instance().begin(*this);
}

LimitedWait::~LimitedWait() {
  if (limit_ > 0) WaitMonitor::instance().end(*this);
}

}  // namespace athanor::gpu
