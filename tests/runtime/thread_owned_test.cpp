#include "athanor/runtime/thread_owned.h"

#include <gtest/gtest.h>

#include <thread>

namespace athanor {
namespace {

struct Owned {
  static inline std::atomic<int> made = 0, destroyed = 0;
  Owned() { ++made; }
  ~Owned() { ++destroyed; }
};

TEST(ThreadOwned, OutlivesItsThreadUntilAnotherAsks) {
  const Owned* mine = &owned_by_thread<Owned>();
  const Owned* other = nullptr;
  std::thread([&] { other = &owned_by_thread<Owned>(); }).join();
  EXPECT_NE(mine, other);
  EXPECT_EQ(Owned::made, 2);
  EXPECT_EQ(Owned::destroyed, 0);
  EXPECT_EQ(&owned_by_thread<Owned>(), mine);
  EXPECT_EQ(Owned::destroyed, 1);
}

}  // namespace
}  // namespace athanor
