#include "athanor/base/in_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace athanor {
namespace {

TEST(InThreads, CallsEachOnceInSoManyThreads) {
  for (const size_t threads : {size_t{0}, size_t{1}, size_t{3}, size_t{100}}) {
    std::vector<std::atomic<int>> calls(20);
    std::set<std::thread::id> seen;
    std::mutex mutex;
    in_threads(calls.size(), threads, [&](size_t i) {
      ++calls[i];
      const std::scoped_lock lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    for (const std::atomic<int>& times : calls) EXPECT_EQ(times, 1);
    EXPECT_LE(seen.size(), std::clamp<size_t>(threads, 1, calls.size()));
  }
  in_threads(0, 4, [](size_t) { FAIL(); });
}

TEST(InThreads, CallsAroundOncePerThread) {
  std::atomic<int> outside{0}, calls{0};
  thread_local bool inside = false;
  const auto work = [&](size_t) { inside ? ++calls : ++outside; };
  std::set<std::thread::id> threads;
  std::mutex mutex;
  in_threads(20, 3, work, [&](const std::function<void()>& all) {
    {
      const std::scoped_lock lock(mutex);
      EXPECT_TRUE(threads.insert(std::this_thread::get_id()).second);
    }
    inside = true;
    all();
    inside = false;
  });
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(outside, 0);
  EXPECT_LE(threads.size(), 3U);
}

// Each call waits for the other.
TEST(InThreads, CallsAtTheSameTime) {
  std::atomic<int> here{0}, met{0};
  in_threads(2, 2, [&](size_t) {
    ++here;
    for (int i = 0; i < 10000 && here < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (here == 2) ++met;
  });
  EXPECT_EQ(met, 2);
}

TEST(InThreads, ThrowTheFirstFailureAfterAllIsDone) {
  for (const size_t threads : {size_t{1}, size_t{4}}) {
    std::atomic<int> calls{0};
    try {
      in_threads(8, threads, [&](size_t i) {
        ++calls;
        if (i == 3) throw std::runtime_error("third");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "third");
    }
    EXPECT_EQ(calls, 8);
  }
}

}  // namespace
}  // namespace athanor
