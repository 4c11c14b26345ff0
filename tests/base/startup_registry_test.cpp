#include "athanor/base/startup_registry.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

TEST(StartupRegistry, IsCompleteWhenItIsRead) {
  StartupRegistry<std::vector<int>> registry;
  registry.add([](std::vector<int>& list) { list.push_back(1); });
  registry.add([](std::vector<int>& list) { list.push_back(2); });
  EXPECT_EQ(registry.list(), (std::vector<int>{1, 2}));
  testing::expect_error(ErrorCode::internal, {"after the program has started"},
                        [&] { registry.add([](std::vector<int>& list) { list.push_back(3); }); });
  EXPECT_EQ(registry.list(), (std::vector<int>{1, 2}));
}

// An entry that is added meanwhile may be accepted or refused, but all readers see the same.
TEST(StartupRegistry, IsTheSameForAllReaders) {
  for (int round = 0; round < 200; ++round) {
    StartupRegistry<std::vector<int>> registry;
    registry.add([](std::vector<int>& list) { list.push_back(1); });
    std::vector<size_t> seen(4);
    std::vector<std::thread> threads;
    threads.reserve(seen.size() + 1);
    for (size_t& size : seen) threads.emplace_back([&] { size = registry.list().size(); });
    threads.emplace_back([&] {
      try {
        registry.add([](std::vector<int>& list) { list.push_back(2); });
      } catch (const Error&) {
        // The registry was already read.
      }
    });
    for (std::thread& thread : threads) thread.join();
    for (const size_t size : seen) EXPECT_EQ(size, registry.list().size());
  }
}

}  // namespace
}  // namespace athanor
