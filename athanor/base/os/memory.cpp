#include "athanor/base/os/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

#include "athanor/base/os/limits.h"

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

namespace athanor::os {

namespace {

/// The number in a file that contains nothing else; none if the file does not exist or contains "max".
[[maybe_unused]] std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

/// The bytes of a line such as "VmHWM:    1234 kB".
[[maybe_unused]] std::optional<uint64_t> line_of([[maybe_unused]] const char* path,
                                                 [[maybe_unused]] std::string_view name) {
#ifdef __linux__
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10) * 1024;
#endif
  return std::nullopt;
}

}  // namespace

uint64_t physical_memory() {
#ifdef _WIN32
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) != 0 ? status.ullTotalPhys : UINT64_MAX;
#else
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  uint64_t bytes =
      pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : UINT64_MAX;
  return std::min(bytes, number_in("/sys/fs/cgroup/memory.max").value_or(UINT64_MAX));
#endif
}

void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void prefer_huge_pages([[maybe_unused]] void* address, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  madvise(address, bytes, MADV_HUGEPAGE);
#endif
}

#ifdef __linux__
void* map_block(size_t bytes) noexcept {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t kept = (bytes + page - 1) / page * page;
  void* const all =
      mmap(nullptr, kept + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all);
  const size_t before = (huge_page - reinterpret_cast<uintptr_t>(all) % huge_page) % huge_page;
  if (before > 0) munmap(begin, before);
  if (before < huge_page) munmap(begin + before + kept, huge_page - before);
  prefer_huge_pages(begin + before, kept);
  return begin + before;
}

void unmap_block(void* block, size_t bytes) noexcept { munmap(block, bytes); }
#else
void* map_block(size_t bytes) noexcept {
  return ::operator new(bytes, std::align_val_t{huge_page}, std::nothrow);
}

void unmap_block(void* block, size_t) noexcept { ::operator delete(block, std::align_val_t{huge_page}); }
#endif

MemorySize memory_size() {
  MemorySize size{line_of("/proc/meminfo", "MemTotal:").value_or(0),
                  line_of("/proc/meminfo", "MemAvailable:").value_or(0), "/proc/meminfo"};
  const auto tighten = [&](uint64_t limit, std::optional<uint64_t> used, const char* source) {
    if (!used || limit >= size.total) return;
    size = {limit, std::min(size.available, *used < limit ? limit - *used : 0), source};
  };
  if (const auto limit = number_in("/sys/fs/cgroup/memory.max"))
    tighten(*limit, number_in("/sys/fs/cgroup/memory.current"), "cgroup memory.max");
  if (const auto limit = address_space_limit())
    tighten(*limit, line_of("/proc/self/status", "VmSize:"), "the limit of 'ulimit -v'");
  return size;
}

std::optional<uint64_t> peak_resident() { return line_of("/proc/self/status", "VmHWM:"); }
std::optional<uint64_t> resident() { return line_of("/proc/self/status", "VmRSS:"); }

bool reset_peak_resident() {
#ifdef __linux__
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
#else
  return false;
#endif
}

}  // namespace athanor::os
