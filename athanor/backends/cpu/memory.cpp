#include "athanor/backends/cpu/memory.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

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

}  // namespace

std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes) {
  // Linux promises more memory than exists and kills the process that uses it, so check first.
  static const uint64_t total = os::memory_size().total;
  void* address = nullptr;
  if (total == 0 || bytes <= total) address = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  if (address == nullptr) {
    const os::MemorySize size = os::memory_size();
    throw Error(ErrorCode::out_of_memory,
                fmt::format("cannot allocate {} on the CPU: {} of {} are available ({})", format_bytes(bytes),
                            format_bytes(size.available), format_bytes(size.total), size.source),
                {}, memory_hint("use a smaller batch or model, or close other programs"));
  }
  if (is_big(bytes)) os::prefer_huge_pages(address, bytes);
  return std::make_shared<CpuStorage>(device, bytes, address);
}

}  // namespace athanor::cpu
