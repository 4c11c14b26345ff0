#include "athanor/base/os/memory.h"

#ifdef __linux__
#include <sys/mman.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#endif

namespace athanor::os {

void prefer_huge_pages([[maybe_unused]] void* address, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  madvise(address, bytes, MADV_HUGEPAGE);
#endif
}

std::optional<uint64_t> available_memory() {
#ifdef __linux__
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view name = "MemAvailable:";
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10) * 1024;
  }
#endif
  return std::nullopt;
}

}  // namespace athanor::os
