// Memory of OpenCL devices: one pool a device.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "athanor/backends/opencl/api.h"
#include "athanor/device/device.h"

namespace athanor::opencl {

class ClDevice;

/// Buffers that were given back, kept for whoever asks for as much. Not for small ones' sake alone: on a
/// discrete card making and freeing a buffer waits for the driver.
class Pool {
 public:
  struct Block {
    cl_mem buffer = nullptr;
    size_t bytes = 0;             // at least what was asked for
    cl_event released = nullptr;  // all that used it before has run when this has; nullptr: nobody did
  };
  /// A block, from the pool or new. Throws Error(out_of_memory) with what was asked, in use and there.
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
