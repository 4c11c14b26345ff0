#include "athanor/backends/gpu/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/queue.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/memory/limit.h"

namespace athanor::gpu {
namespace {

constexpr size_t most_kept = size_t{512} << 20;

// Eight sizes for each doubling: little is wasted, and sizes that differ a little share blocks. An eighth of
// a large block is much, so large sizes are finer.
size_t size_class(size_t bytes) {
  constexpr size_t least = 256, large = size_t{1} << 20;
  const size_t step = std::max(least, std::bit_floor(std::max<size_t>(bytes, 1)) / (bytes < large ? 8 : 64));
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

void Pool::refuse(size_t bytes, const std::string& why) const {
  const DeviceInfo& info = device_.facts().info;
  throw Error(ErrorCode::out_of_memory,
              fmt::format("cannot allocate {} on {} ({}): {}; this program uses {} of its {}",
                          format_bytes(bytes), device_.name(), info.name, why,
                          format_bytes(memory_use(info.device).current), format_bytes(info.memory_bytes)),
              {}, "Use a smaller batch or model, or close other programs that use the device.");
}

Pool::Block Pool::take(size_t bytes) {
  const uint64_t largest = device_.facts().largest_buffer;
  if (largest > 0 && bytes > largest)
    refuse(bytes, fmt::format("its largest buffer is {}", format_bytes(largest)));
  const size_t size = largest > 0 ? std::min<size_t>(size_class(bytes), largest) : size_class(bytes);
  Driver& driver = device_.driver();
  const std::scoped_lock lock(mutex_);
  if (auto found = free_.find(size); found != free_.end()) {
    Block block = std::move(found->second);
    free_.erase(found);
    free_bytes_ -= size;
    return block;
  }
  if (free_bytes_ + size > memory_left(device_.id())) trim();
  std::string why;
  Memory memory = driver.allocate(size, why);
  if (memory == nullptr && !free_.empty()) {  // kept blocks may take its space
    trim();
    memory = driver.allocate(size, why);
  }
  if (memory == nullptr) refuse(bytes, why);
  return {memory, size, ++allocations_, nullptr};
}

void Pool::give_back(Block block) noexcept {
  const std::scoped_lock lock(mutex_);
  free_bytes_ += block.bytes;
  free_.emplace(block.bytes, std::move(block));
  if (free_bytes_ > std::min<uint64_t>(most_kept, memory_left(device_.id()))) try {
      trim();
    } catch (const std::exception&) {
      // The device was lost: the next wait for it reports that.
    }
}

void Pool::trim() {
  while (!free_.empty()) {
    const Block& block = free_.begin()->second;
    // Indices out of range are reported to the thread that waits for results, not to one that needs memory.
    if (const auto* const own = dynamic_cast<const GpuEvent*>(block.released.get()))
      own->await();
    else if (block.released != nullptr)
      block.released->wait();
    device_.kernels().limited([&] { device_.driver().free(block.memory); });  // it may wait for kernels
    free_bytes_ -= block.bytes;
    free_.erase(free_.begin());
  }
}

}  // namespace athanor::gpu
