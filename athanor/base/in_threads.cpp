#include "athanor/base/in_threads.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace athanor {

void in_threads(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  in_threads(count, threads, work, [](const auto& calls) { calls(); });
}

void in_threads(size_t count, size_t threads, const std::function<void(size_t)>& work,
                const std::function<void(const std::function<void()>& calls)>& around) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto calls = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
      }
  };
  const auto run = [&] { around(calls); };
  {
    std::vector<std::jthread> others;  // joined at the end, also if a further one cannot be started
    for (size_t i = 1; i < threads && i < count; ++i) others.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace athanor
