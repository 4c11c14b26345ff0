// Memory of OpenCL devices: one pool for each device.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "athanor/backends/opencl/api.h"
#include "athanor/device/device.h"

namespace athanor::opencl {

class ClDevice;

/// Keeps released buffers for later requests of the same size. This matters for large buffers too: on a
/// discrete card, making and freeing a buffer waits for the driver.
class Pool {
 public:
  struct Block {
    cl_mem buffer = nullptr;
    size_t bytes = 0;             // at least the requested size
    cl_event released = nullptr;  // when this has run, all earlier uses have; nullptr: never used
  };
  /// A block, from the pool or new. Throws Error(out_of_memory) with the sizes requested, in use and
  /// available.
  Block take(ClDevice& device, size_t bytes);
  void give_back(ClDevice& device, Block block);

 private:
  void trim();
  std::mutex mutex_;
  std::multimap<size_t, Block> free_;
  size_t free_bytes_ = 0;
};

/// Throws Error(out_of_memory).
std::shared_ptr<Storage> allocate_memory(ClDevice& device, size_t bytes);

}  // namespace athanor::opencl
