// Memory, as the operating system manages it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

namespace athanor::os {

/// Bytes of a huge page, on systems that have them.
constexpr size_t huge_page = size_t{2} << 20;

/// Bytes that this machine, or the container that the process is in, has at all.
uint64_t physical_memory();

/// Memory that this process can have.
struct MemorySize {
  uint64_t total = 0;       // bytes; 0: not known
  uint64_t available = 0;   // of these, what it can still take without the system running short
  const char* source = "";  // which is the tightest: the machine, its container, or the process's limit
};
/// `ulimit -v` limits addresses, also of code and stacks: what they take counts as taken.
MemorySize memory_size();

/// Asks for huge pages for a block: fewer page faults when it is first touched, and fewer TLB misses later.
/// Only a hint: it does nothing on systems that cannot do this.
void prefer_huge_pages(void* address, size_t bytes);

/// A large block from the system, in huge pages where it has them; nullptr: there is no memory.
void* map_block(size_t bytes) noexcept;
/// Gives it back to the system at once. (The C library keeps freed memory, where others have taken from it.)
void unmap_block(void* block, size_t bytes) noexcept;

/// Gives memory that was freed back to the system, where the C library keeps it (glibc).
void return_freed_memory();

/// The most memory that this process has had in RAM at one time since reset_peak_resident(); none where the
/// system does not say.
std::optional<uint64_t> peak_resident();
/// From here on. False where the system does not allow it.
bool reset_peak_resident();
/// What it has now.
std::optional<uint64_t> resident();

}  // namespace athanor::os
