#include "athanor/backends/cpu/memory.h"

#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/memory_hint.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"

namespace athanor::cpu {
namespace {

// Big blocks start on a huge page; see os::prefer_huge_pages.
bool is_big(size_t bytes) { return bytes >= 2 * os::huge_page; }
std::align_val_t alignment_of(size_t bytes) { return std::align_val_t{is_big(bytes) ? os::huge_page : 64}; }

class CpuStorage final : public Storage {
 public:
  CpuStorage(Device device, size_t bytes, void* address) : Storage(device, bytes, address) {
    count_memory(device, static_cast<int64_t>(bytes));
  }
  ~CpuStorage() override {
    count_memory(device(), -static_cast<int64_t>(bytes()));
    ::operator delete(address(), alignment_of(bytes()));
  }
  void read(void* destination, size_t offset, size_t count) const override {
    if (count > 0) std::memcpy(destination, static_cast<const std::byte*>(address()) + offset, count);
  }
  void write(const void* source, size_t offset, size_t count) override {
    if (count > 0) std::memcpy(static_cast<std::byte*>(address()) + offset, source, count);
  }
};

size_t number_in(const char* path) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : std::numeric_limits<size_t>::max();
}

}  // namespace

MemorySize memory_size() {
  MemorySize size{0, 0, "/proc/meminfo"};
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (size_t kib = 0; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemTotal:") size.total = kib * 1024;
    if (key == "MemAvailable:") size.available = kib * 1024;
  }
  if (const size_t limit = number_in("/sys/fs/cgroup/memory.max"); limit < size.total) {
    const size_t used = number_in("/sys/fs/cgroup/memory.current");
    size = {limit, std::min(size.available, used < limit ? limit - used : 0), "cgroup memory.max"};
  }
  return size;
}

std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes) {
  // Linux promises more memory than exists and kills the process that uses it, so check first.
  static const size_t total = memory_size().total;
  void* address = nullptr;
  if (total == 0 || bytes <= total) address = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  if (address == nullptr) {
    const MemorySize size = memory_size();
    throw Error(ErrorCode::out_of_memory,
                "cannot allocate " + format_bytes(bytes) + " on the CPU: " + format_bytes(size.available) +
                    " of " + format_bytes(size.total) + " are available",
                {}, memory_hint("use a smaller batch or model, or close other programs"));
  }
  if (is_big(bytes)) os::prefer_huge_pages(address, bytes);
  return std::make_shared<CpuStorage>(device, bytes, address);
}

}  // namespace athanor::cpu
