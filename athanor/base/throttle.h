// Lines of progress, now and then.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "athanor/base/clock.h"

namespace athanor {

/// Prints the newest of the lines that it is given, at most one in so many seconds. One that nothing follows
/// is printed as well once its time has come: what takes longest is named while it lasts. Work that is done
/// before the first time prints nothing. Several threads may use it.
class Throttle {
 public:
  Throttle(double seconds, std::function<void(const std::string& line)> print);
  ~Throttle();
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  void say(std::string line);
  /// Prints it whenever the last one was, in place of one that still waits.
  void say_at_once(const std::string& line);

 private:
  void print_when_due();

  Clock::duration apart_;
  std::function<void(const std::string&)> print_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string next_;  // that still waits
  bool waits_ = false, ends_ = false;
  Clock::time_point due_;
  std::thread thread_;  // once there is a line that waits
};

}  // namespace athanor
