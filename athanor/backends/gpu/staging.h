// Pinned host memory for copies to the device, and for copies between devices that do not reach each other.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

class GpuDevice;
class GpuQueue;

/// A discrete GPU reads directly only from host memory that cannot be swapped out. For other memory its
/// driver makes a copy first, and the whole transfer waits. So uploads go in pieces through blocks of pinned
/// memory: one is filled while others are transferred. They are kept until the process ends.
class Staging {
 public:
  /// Blocks of `bytes` each. The host waits when all are under way.
  Staging(GpuDevice& device, size_t blocks, size_t bytes) : device_(device), bytes_(bytes), blocks_(blocks) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns when `source` has been read; the last pieces may still be on their way.
  void upload(GpuQueue& queue, Place to, const void* source, size_t bytes);
  /// The same, from memory of any other device.
  void copy_in(GpuQueue& queue, Place to, const Binding& from, size_t bytes);
  /// Copies from the device. `take` gets a piece, the number of bytes before it, and its size.
  using Take = std::function<void(const void*, size_t, size_t)>;
  void copy_out(GpuQueue& queue, Place from, size_t bytes, const Take& take);

 private:
  /// Fills the blocks by turns. `fill` gets a block, the number of bytes before it, and the bytes to fill.
  template <class Fill>
  void send(GpuQueue& queue, Place to, size_t bytes, const Fill& fill);
  struct Block {
    void* memory = nullptr;
    std::shared_ptr<Event> sent;  // the last copy out of it
  };
  Block& next_block();
  GpuDevice& device_;
  const size_t bytes_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t turn_ = 0;
};

}  // namespace athanor::gpu
