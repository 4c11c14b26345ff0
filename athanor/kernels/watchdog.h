// Ends the program if a kernel hangs, because a running kernel cannot be stopped.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace athanor {

/// If one lives longer than a minute, the program ends with a message about `what`: "trying the kernel 'b'".
class Watchdog {
 public:
  explicit Watchdog(std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool called_off_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace athanor
