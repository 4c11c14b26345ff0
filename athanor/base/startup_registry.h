// Lists that source files add to while the program starts.
#pragma once
#include <atomic>
#include <mutex>

#include "athanor/base/error.h"

namespace athanor {

/// A list (or map) that is complete before it is first read. After that it never changes, so that any thread
/// may read it, and keep pointers into it, without a lock.
template <class List>
class StartupRegistry {
 public:
  /// Calls `add(list)`, which adds to the list. Throws Error(internal) if the list has been read already,
  /// because earlier readers would not see the addition.
  template <class Add>
  void add(const Add& add) {
    const std::scoped_lock lock(mutex_);
    if (complete_.load(std::memory_order_relaxed))
      throw Error(
          ErrorCode::internal, "something was registered after the program has started", {},
          "Register it in the initial value of a variable, and load its library before the first use");
    add(list_);
  }

  const List& list() {
    if (!complete_.load(std::memory_order_acquire)) {
      const std::scoped_lock lock(mutex_);
      complete_.store(true, std::memory_order_release);
    }
    return list_;
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> complete_ = false;
  List list_;
};

}  // namespace athanor
