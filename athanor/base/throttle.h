// Lines of progress, printed at intervals.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "athanor/base/clock.h"

namespace athanor {

/// Prints the newest of the lines that it is given, at most one in `seconds`. If no further line comes, the
/// last one is printed at the end of the interval, so that long work is named while it lasts. Work that ends
/// before the first interval prints nothing. Several threads may use it.
class Throttle {
 public:
  Throttle(double seconds, std::function<void(const std::string& line)> print);
  ~Throttle();
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  void say(std::string line);
  /// Prints the line now, whenever the last one was printed. A line that still waits is dropped.
  void say_at_once(const std::string& line);

 private:
  void print_when_due();

  Clock::duration apart_;
  std::function<void(const std::string&)> print_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string next_;  // the line that waits
  bool waits_ = false, ends_ = false;
  Clock::time_point due_;
  std::thread thread_;  // started by the first line that waits
};

}  // namespace athanor
