// The pool of freed GPU memory: what it keeps, when it frees that, and its message when memory runs out.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/memory/limit.h"
#include "athanor/memory/storage.h"
#include "tests/support/expect_error.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {
namespace {

constexpr size_t kib = 1024, mib = 1024 * kib;

class GpuMemoryPool : public ::testing::Test {
 protected:
  GpuMemoryPool() {
    auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
    driver_ = made.get();
    device_ = std::make_unique<gpu::GpuDevice>(std::move(made));
    device_->driver();  // opens the driver, which takes some memory
    before_ = driver_->held();
  }
  size_t held() const { return driver_->held() - before_; }
  gpu::Pool& pool() { return device_->pool; }
  /// Fills the pool: takes blocks of these sizes and gives them back.
  void keep(std::initializer_list<size_t> sizes) {
    std::vector<gpu::Pool::Block> blocks;
    for (const size_t size : sizes) blocks.push_back(pool().take(size));
    for (gpu::Pool::Block& block : blocks) pool().give_back(std::move(block));
  }

  HostDriver* driver_ = nullptr;
  std::unique_ptr<gpu::GpuDevice> device_;
  size_t before_ = 0;
};

TEST_F(GpuMemoryPool, WastesAnEighthOfSmallBlocksAndLittleOfLargeOnes) {
  for (size_t bytes = 1; bytes < 100 * mib; bytes += bytes / 7 + 1) {
    const gpu::Pool::Block block = pool().take(bytes);
    EXPECT_GE(block.bytes, bytes);
    EXPECT_LE(block.bytes - bytes, bytes < mib ? std::max<size_t>(255, bytes / 8) : bytes / 64) << bytes;
    driver_->free(block.memory);
  }
}

TEST_F(GpuMemoryPool, GivesABlockToTheNextOfItsSize) {
  gpu::Pool::Block first = pool().take(10 * kib);
  const gpu::Memory memory = first.memory;
  pool().give_back(std::move(first));
  const gpu::Pool::Block other = pool().take(20 * kib), again = pool().take(10 * kib - 100);
  EXPECT_NE(other.memory, memory) << "of another size";
  EXPECT_EQ(again.memory, memory);
  const gpu::Pool::Block more = pool().take(10 * kib);
  EXPECT_NE(more.memory, memory) << "it is in use";
}

TEST_F(GpuMemoryPool, LetsGoOfWhatItKeepsBeforeItRefuses) {
  driver_->room = before_ + 8 * mib;
  keep({2 * mib, 3 * mib});
  EXPECT_EQ(held(), 5 * mib);
  const gpu::Pool::Block block = pool().take(6 * mib);
  EXPECT_EQ(held(), block.bytes);
}

TEST_F(GpuMemoryPool, KeepsHalfAGibibyteAtMost) {
  std::vector<gpu::Pool::Block> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool().take(200 * mib));
  for (int i = 0; i < 2; ++i) pool().give_back(std::move(blocks[static_cast<size_t>(i)]));
  EXPECT_EQ(held(), 600 * mib);
  pool().give_back(std::move(blocks[2]));
  EXPECT_EQ(held(), 0);
}

// Nothing here is counted as Storage, so the whole limit is left for kept and requested blocks.
TEST_F(GpuMemoryPool, KeepsNoMoreThanALimitLeaves) {
  const MemoryLimit limit(device_->id(), memory_use(device_->id()).current + 8 * mib);
  keep({5 * mib});
  EXPECT_EQ(held(), 5 * mib);
  const gpu::Pool::Block block = pool().take(4 * mib);  // with the kept block, it would be too much
  EXPECT_EQ(held(), block.bytes);
  keep({5 * mib, 4 * mib});
  EXPECT_EQ(held(), block.bytes) << "more than the limit was given back";
}

// Its next owner waits for what the queue of kernels was given, so that must wait for the upload.
TEST_F(GpuMemoryPool, MemoryIsReleasedBehindAnUploadThatIsUnderWay) {
  const std::vector<std::byte> content(10 * kib);
  const auto written = [&](bool used) {
    gpu::GpuStorage storage(*device_, pool().take(content.size()), content.size());
    if (used) device_->kernels().require(storage);
    storage.write(content.data(), 0, content.size());
    driver_->waits = 0;
  };
  driver_->late = true;
  written(true);
  EXPECT_EQ(driver_->waits, 1);
  written(false);  // then the upload itself is what the next owner waits for
  EXPECT_EQ(driver_->waits, 0);
  // As in the program, the device lives on: its memory keeps events of its queues.
  static auto& kept = *new std::vector<std::unique_ptr<gpu::GpuDevice>>;
  kept.push_back(std::move(device_));
}

// The driver may refuse to mark the point at which kernels have used it. Then the host waits.
TEST_F(GpuMemoryPool, MemoryIsNotReleasedWhileItIsInUse) {
  {
    gpu::GpuStorage storage(*device_, pool().take(mib), mib);
    device_->kernels().require(storage);
    driver_->failed = true;
    driver_->finishes = 0;
  }
  EXPECT_EQ(driver_->finishes, 1);
  EXPECT_EQ(pool().take(mib).released, nullptr);
}

// What was captured must not take the memory for that which it has used.
TEST_F(GpuMemoryPool, MemoryThatIsAllocatedAgainIsOtherMemory) {
  const auto identity = [&] { return gpu::GpuStorage(*device_, pool().take(mib), mib).identity(); };
  const void* const first = identity();
  EXPECT_EQ(identity(), first) << "a block of the pool stays the same";
  driver_->room = driver_->held() + mib / 2;
  const gpu::Pool::Block small = pool().take(mib / 2 + kib);  // takes the room of what the pool kept
  driver_->room = SIZE_MAX;
  EXPECT_NE(identity(), first) << "it has the same address";
  driver_->free(small.memory);
}

TEST_F(GpuMemoryPool, SaysWhatWasAskedForWhatIsUsedAndWhatToDo) {
  driver_->room = before_ + mib;
  expect_error(ErrorCode::out_of_memory,
               {"cannot allocate 3.00 MiB", "(host memory)", "no room", "this program uses ",
                "Use a smaller batch or model, or close other programs"},
               [&] { pool().take(3 * mib); });
  EXPECT_EQ(held(), 0);
  driver_->room = SIZE_MAX;
  EXPECT_NE(pool().take(3 * mib).memory, nullptr) << "nothing is broken";
}

}  // namespace
}  // namespace athanor::testing
