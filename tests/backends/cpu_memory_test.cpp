// The CPU's memory: freed blocks are used again, and returned to the system if they would be too much.
#include "athanor/backends/cpu/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "athanor/base/os/memory.h"

namespace athanor {
namespace {

constexpr size_t mib = size_t{1} << 20;

std::shared_ptr<Storage> touched(size_t bytes) {
  auto storage = cpu::allocate_memory(Device{}, bytes);
  std::memset(storage->address(), 1, bytes);
  return storage;
}

double resident_mib() { return static_cast<double>(os::resident().value_or(0)) / static_cast<double>(mib); }

TEST(CpuMemory, IsAlignedInEverySize) {
  std::vector<std::shared_ptr<Storage>> all;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{100}, 4 * mib - 1, 4 * mib, 5 * mib + 12345, 70 * mib + 1}) {
    all.push_back(touched(bytes));
    const size_t alignment = bytes >= 4 * mib ? os::huge_page : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back()->address()) % alignment, 0U) << bytes;
  }
}

TEST(CpuMemory, ABlockIsUsedAgainInItsSize) {
  cpu::release_kept_memory();
  const auto other = touched(8 * mib);
  auto block = touched(6 * mib);
  const void* const address = block->address();
  block.reset();
  const auto again = cpu::allocate_memory(Device{}, 6 * mib);
  EXPECT_EQ(again->address(), address);
  EXPECT_NE(other->address(), address);
}

/// The thread sanitizer keeps as much beside memory that was used, and gives it back later.
bool tells_resident() {
#ifdef __SANITIZE_THREAD__
  return false;
#else
  return os::resident().has_value();
#endif
}

// Old blocks are freed for a new size, so storage and kept blocks never take more than storage once took.
TEST(CpuMemory, KeptBlocksMakeWayForANewSize) {
  if (!tells_resident()) GTEST_SKIP() << "what a process has in RAM is not known here";
  cpu::release_kept_memory();
  const double before = resident_mib();
  for (int i = 0; i < 3; ++i) touched((20 + static_cast<size_t>(i)) * mib);
  EXPECT_LT(resident_mib() - before, 30) << "the last one is kept";
  EXPECT_GT(resident_mib() - before, 15);
  const auto small = touched(5 * mib);
  EXPECT_LT(resident_mib() - before, 12);
}

TEST(CpuMemory, IsGivenBackWhereItIsLargeOrMuchOrAskedFor) {
  if (!tells_resident()) GTEST_SKIP() << "what a process has in RAM is not known here";
  cpu::release_kept_memory();
  const double before = resident_mib();
  touched(200 * mib);
  EXPECT_LT(resident_mib() - before, 10);
  {
    std::vector<std::shared_ptr<Storage>> all(10);
    for (auto& one : all) one = touched(30 * mib);
  }
  EXPECT_LT(resident_mib() - before, 140);
  cpu::release_kept_memory();
  EXPECT_LT(resident_mib() - before, 10);
}

TEST(CpuMemory, ThreadsTakeBlocksOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        const size_t bytes = (4 + static_cast<size_t>(i % 3)) * mib;
        const auto storage = cpu::allocate_memory(Device{}, bytes);
        auto* const words = static_cast<int*>(storage->address());
        const size_t last = bytes / sizeof(int) - 1;
        words[0] = words[last] = t * 100 + i;
        std::this_thread::yield();
        EXPECT_EQ(words[0], t * 100 + i);
        EXPECT_EQ(words[last], t * 100 + i);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace athanor
