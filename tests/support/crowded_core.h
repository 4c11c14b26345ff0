// Simulates a busy machine: while this exists, the process has one core, which busy threads use too. So a
// thread or child gets the core only for a small part of the time.
#pragma once
#ifdef __linux__
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

namespace athanor::testing {

class CrowdedCore {
 public:
  CrowdedCore() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0 && core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);  // for this thread, and threads and children that it starts
    for (int i = 0; i < 6; ++i)
      others_.emplace_back([this] {
        while (!over_) continue;
      });
  }
  ~CrowdedCore() {
    over_ = true;
    sched_setaffinity(0, sizeof(before_), &before_);
  }
  CrowdedCore(const CrowdedCore&) = delete;
  CrowdedCore& operator=(const CrowdedCore&) = delete;

 private:
  cpu_set_t before_{};
  std::atomic<bool> over_{false};
  std::vector<std::jthread> others_;
};

}  // namespace athanor::testing
#endif
