#include "athanor/base/os/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#ifdef __linux__
#include <sys/mman.h>

#endif
#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

namespace athanor::os {

uint64_t physical_memory() {
#ifdef _WIN32
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) != 0 ? status.ullTotalPhys : UINT64_MAX;
#else
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  uint64_t bytes =
      pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : UINT64_MAX;
  uint64_t limit = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> limit) bytes = std::min(bytes, limit);
  return bytes;
#endif
}

void prefer_huge_pages([[maybe_unused]] void* address, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  madvise(address, bytes, MADV_HUGEPAGE);
#endif
}

namespace {

/// A line such as "VmHWM:    1234 kB".
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

std::optional<uint64_t> available_memory() { return line_of("/proc/meminfo", "MemAvailable:"); }
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
