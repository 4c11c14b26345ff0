// Objects on devices that belong to one thread.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace athanor {

/// This thread's T, made at the first call. It owns memory or captured work of devices, so it is not
/// destroyed when its thread ends: drivers have thread-local variables too, which may be destroyed earlier.
/// The next thread that calls this destroys it; at the end of the process it is left.
template <class T>
T& owned_by_thread() {
  struct Ended {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> values;
    std::atomic<bool> any = false;
  };
  static Ended& ended = *new Ended;  // never destroyed: threads may outlive static objects
  struct Owner {
    std::unique_ptr<T> value = std::make_unique<T>();
    ~Owner() {
      const std::scoped_lock lock(ended.mutex);
      ended.values.push_back(std::move(value));
      ended.any = true;
    }
  };
  thread_local Owner owner;
  if (ended.any.load(std::memory_order_relaxed)) {
    std::vector<std::unique_ptr<T>> values;
    const std::scoped_lock lock(ended.mutex);
    values.swap(ended.values);
    ended.any = false;
  }
  return *owner.value;
}

}  // namespace athanor
