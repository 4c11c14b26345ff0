// Memory of the CPU device.
#pragma once
#include <cstddef>
#include <memory>

#include "athanor/device/device.h"

namespace athanor::cpu {

/// 64-byte aligned memory, counted with count_memory. Throws Error(out_of_memory).
std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes);

/// The machine's (or its container's) memory in bytes and where that number comes from; 0 when unknown.
struct MemorySize {
  size_t total = 0, available = 0;
  const char* source = "";
};
MemorySize memory_size();

}  // namespace athanor::cpu
