// Ends the program if a kernel hangs, because a running kernel cannot be stopped.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace athanor {

/// If one lives longer than `patience`, the program ends with a message about `what`: "trying the kernel
/// 'b'". Time that this process waits for cores does not count in full (os::FairTime).
class Watchdog {
 public:
  explicit Watchdog(std::string what, std::chrono::milliseconds patience = std::chrono::minutes(1));
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// While one lives, in any thread, the time does not count: the program waits for another process, not for
  /// a kernel.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool called_off_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace athanor
