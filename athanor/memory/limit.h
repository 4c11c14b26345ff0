// A limit of a device's memory for everything that allocates there except plans.
#pragma once
#include <cstdint>

#include "athanor/device/device.h"

namespace athanor {

/// While a MemoryLimit exists, trials of kernels and pools of freed memory stay within `bytes` of the device.
/// Threads share a device, and so its limit. Plans have CompileOptions::memory_limit instead. If several
/// exist for a device, the last one applies.
class MemoryLimit {
 public:
  MemoryLimit(Device device, uint64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  Device device_;
  uint64_t before_;
};

/// The bytes of the limit that no Storage holds; 0 if they hold more, UINT64_MAX without a limit.
uint64_t memory_left(Device device);

}  // namespace athanor
