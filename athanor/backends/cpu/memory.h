// Memory of the CPU device.
#pragma once
#include <cstddef>
#include <memory>

#include "athanor/memory/storage.h"

namespace athanor::cpu {

/// 64-byte aligned memory, counted with count_memory. Throws Error(out_of_memory).
std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes);
/// Gives freed memory back to the system, including memory that the C library keeps.
void release_kept_memory() noexcept;

}  // namespace athanor::cpu
