// Memory of the CPU device.
#pragma once
#include <cstddef>
#include <memory>

#include "athanor/memory/storage.h"

namespace athanor::cpu {

/// 64-byte aligned memory, counted with count_memory. Throws Error(out_of_memory).
std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes);

/// The memory of the machine (or its container) in bytes, and the source of that number; 0 if unknown.
struct MemorySize {
  size_t total = 0, available = 0;
  const char* source = "";
};
MemorySize memory_size();

}  // namespace athanor::cpu
