// Launches that are not known to have ended. A failure that a device reports late arose in one of them.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "athanor/base/error.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

/// The launches of one queue. The first after each point where the host may wait is remembered by its name.
class Pending {
 public:
  void launched(const CommandSite* site);
  /// Launches that are given to the device together.
  struct Group {
    uint64_t count = 0;
    std::string step, where;  // of the first
    void add(const CommandSite* site);
  };
  void launched(const Group& group);
  /// The number of launches so far; the next one is remembered.
  uint64_t point();
  /// Call this when all launches up to this number have run.
  void passed(uint64_t number);
  /// Adds to an error the steps in which it may have arisen, among launches up to `number`. An error that
  /// names a place already is returned as it is.
  Error located(const Error& error, uint64_t number);
  /// The same among all launches so far.
  Error located(const Error& error);
  /// Whether any launch is not known to have ended.
  bool any();
  /// Whether there are named launches up to `number` that are not known to have ended.
  bool knows(uint64_t number);

 private:
  struct First {
    uint64_t number;
    std::string step, where;
  };
  std::mutex mutex_;
  uint64_t launches_ = 0, done_ = 0;
  bool next_is_first_ = true;
  std::deque<First> firsts_;
};

/// $ATHANOR_SYNC: the host waits for each launch, so that an error names its step.
bool waits_for_each_launch();

}  // namespace athanor::gpu
