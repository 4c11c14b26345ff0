#pragma once
#include <chrono>

namespace athanor {

/// The clock for measuring durations. It is never set forward or back.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace athanor
