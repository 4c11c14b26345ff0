// Memory, as the operating system manages it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

namespace athanor::os {

/// Bytes of a huge page, on systems that have them.
constexpr size_t huge_page = size_t{2} << 20;

/// The total memory, in bytes, of this machine or of the container that the process is in.
uint64_t physical_memory();

/// The memory that this process can use.
struct MemorySize {
  uint64_t total = 0;       // bytes; 0: not known
  uint64_t available = 0;   // bytes that it can still take without the system running short
  const char* source = "";  // the tightest limit: the machine's, its container's or the process's
};
/// `ulimit -v` limits addresses, including those of code and stacks, so these count as taken.
MemorySize memory_size();

/// Asks for huge pages for a block: fewer page faults when it is first touched, and fewer TLB misses later.
/// It is only a hint, and does nothing on systems without huge pages.
void prefer_huge_pages(void* address, size_t bytes);

/// A large block from the system, in huge pages if it has them; nullptr if there is not enough memory.
void* map_block(size_t bytes) noexcept;
/// Returns the block to the system at once. (The C library would keep freed memory.)
void unmap_block(void* block, size_t bytes) noexcept;

/// Returns freed memory that the C library keeps (glibc) to the system.
void return_freed_memory();

/// The most memory, in bytes, that this process has had in RAM at one time since reset_peak_resident(); none
/// if the system does not report it.
std::optional<uint64_t> peak_resident();
/// Starts measuring the peak anew. False if the system does not allow it.
bool reset_peak_resident();
/// The bytes that it has in RAM now.
std::optional<uint64_t> resident();

}  // namespace athanor::os
