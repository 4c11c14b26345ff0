#include "athanor/backends/cpu/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/memory_hint.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"

namespace athanor::cpu {
namespace {

bool is_big(size_t bytes) { return bytes >= 2 * os::huge_page; }
constexpr std::align_val_t alignment{64};

// Big blocks come from the system. Freed ones are kept for the next block of the same size, because a step
// often takes what the one before gave back, and touching new pages takes time. If no kept block has the
// size, all of them go back to the system first. So storage and kept blocks together never exceed the most
// that storage alone has taken.
class BigBlocks {
 public:
  void* take(size_t bytes) noexcept {
    {
      const std::scoped_lock lock(mutex_);
      const auto found = std::ranges::find(kept_, bytes, &Block::bytes);
      if (found != kept_.end()) {
        void* const address = found->address;
        *found = kept_.back();
        kept_.pop_back();
        kept_bytes_ -= bytes;
        return address;
      }
      unmap_kept();
    }
    return os::map_block(bytes);
  }

  void release_kept() noexcept {
    const std::scoped_lock lock(mutex_);
    unmap_kept();
  }

  void give_back(void* address, size_t bytes) noexcept {
    constexpr size_t most_of_one = size_t{32} << 20, most_of_all = size_t{128} << 20;
    {
      const std::scoped_lock lock(mutex_);
      if (bytes <= most_of_one && kept_bytes_ + bytes <= most_of_all && kept_.size() < kept_.capacity()) {
        kept_.push_back({address, bytes});
        kept_bytes_ += bytes;
        return;
      }
    }
    os::unmap_block(address, bytes);
  }

  // Never destroyed: storage may outlive it.
  static BigBlocks& instance() {
    static auto* const blocks = new BigBlocks;
    return *blocks;
  }

 private:
  struct Block {
    void* address;
    size_t bytes;
  };
  BigBlocks() { kept_.reserve(64); }  // so that giving back needs no memory

  void unmap_kept() noexcept {
    for (const Block& block : kept_) os::unmap_block(block.address, block.bytes);
    kept_.clear();
    kept_bytes_ = 0;
  }

  std::mutex mutex_;
  std::vector<Block> kept_;
  size_t kept_bytes_ = 0;
};

void* take(size_t bytes) noexcept {
  return is_big(bytes) ? BigBlocks::instance().take(bytes) : ::operator new(bytes, alignment, std::nothrow);
}
void give_back(void* address, size_t bytes) noexcept {
  if (is_big(bytes))
    BigBlocks::instance().give_back(address, bytes);
  else
    ::operator delete(address, alignment);
}

class CpuStorage final : public Storage {
 public:
  CpuStorage(Device device, size_t bytes, void* address) : Storage(device, bytes, address) {
    count_memory(device, static_cast<int64_t>(bytes));
  }
  ~CpuStorage() override {
    count_memory(device(), -static_cast<int64_t>(bytes()));
    give_back(address(), bytes());
  }
  void read(void* destination, size_t offset, size_t count) const override {
    await();
    if (count > 0) std::memcpy(destination, static_cast<const std::byte*>(address()) + offset, count);
  }
  void write(const void* source, size_t offset, size_t count) override {
    await();
    if (count > 0) std::memcpy(static_cast<std::byte*>(address()) + offset, source, count);
  }

 private:
  // What a device copies here may be under way.
  void await() const {
    if (ready() != nullptr) ready()->wait();
  }
};

}  // namespace

std::shared_ptr<Storage> allocate_memory(Device device, size_t bytes) {
  // Linux promises more memory than exists and kills the process that uses it, so check first.
  static const uint64_t total = os::memory_size().total;
  void* address = nullptr;
  if (total == 0 || bytes <= total) address = take(bytes);
  if (address == nullptr) {
    const os::MemorySize size = os::memory_size();
    throw Error(ErrorCode::out_of_memory,
                fmt::format("cannot allocate {} on the CPU: {} of {} are available ({})", format_bytes(bytes),
                            format_bytes(size.available), format_bytes(size.total), size.source),
                {}, memory_hint("use a smaller batch or model, or close other programs"));
  }
  return std::make_shared<CpuStorage>(device, bytes, address);
}

void release_kept_memory() noexcept {
  BigBlocks::instance().release_kept();
  os::return_freed_memory();
}

}  // namespace athanor::cpu
