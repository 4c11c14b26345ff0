// A pool of freed GPU memory, for later allocations of the same size: on a discrete GPU allocating and
// freeing waits for the driver. The pool's memory and that of Storage objects together stay within a
// MemoryLimit.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "athanor/backends/gpu/driver.h"

namespace athanor::gpu {

class GpuDevice;

class Pool {
 public:
  explicit Pool(GpuDevice& device) : device_(device) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Block {
    Memory memory = nullptr;
    size_t bytes = 0;                 // at least what was asked for
    uint64_t number = 0;              // of the allocation
    std::shared_ptr<Event> released;  // when this has passed, all earlier uses have run
  };
  /// A block, from the pool or new. Throws Error(out_of_memory) with the bytes requested, in use, and free.
  Block take(size_t bytes);
  void give_back(Block block) noexcept;

 private:
  void trim();
  [[noreturn]] void refuse(size_t bytes, const std::string& why) const;

  GpuDevice& device_;
  std::mutex mutex_;
  std::multimap<size_t, Block> free_;
  size_t free_bytes_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace athanor::gpu
