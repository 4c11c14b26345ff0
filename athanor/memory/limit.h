// The memory that a run may take of a device, for all who allocate there beside its plans.
#pragma once
#include <cstdint>

#include "athanor/device/device.h"

namespace athanor {

/// While one exists, trials of kernels and pools of freed memory stay within so many bytes of the device.
/// Plans have CompileOptions::memory_limit. The last one made for a device holds.
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

/// The bytes of the limit that no Storage holds: 0 where they hold more, UINT64_MAX without a limit.
uint64_t memory_left(Device device);

}  // namespace athanor
