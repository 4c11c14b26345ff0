// Launches that are not known to have ended, among which a failure is looked for that a device reports late.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "athanor/base/error.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

/// Of one queue. The first launch after each point where the host may wait is remembered by its name.
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
  /// All up to this number have run.
  void passed(uint64_t number);
  /// The error with the steps among which it arose: of launches up to `number`. An error that names a place
  /// already is returned as it is.
  Error located(const Error& error, uint64_t number);
  /// Of all launches so far.
  Error located(const Error& error);
  /// Whether any launch is not known to have ended.
  bool any();
  /// Whether launches up to `number`, with names, are not known to have ended.
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
