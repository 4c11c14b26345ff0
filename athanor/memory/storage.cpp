#include "athanor/memory/storage.h"

#include <array>
#include <atomic>

namespace athanor {
namespace {

struct Count {
  std::atomic<int64_t> current{0}, peak{0};
};

Count& count_of(Device device) {
  static std::array<std::array<Count, max_devices>, max_providers> counts;
  return counts.at(device.provider).at(device.index);
}

}  // namespace

void release_kept_memory(Device device) {
  dynamic_cast<Allocator&>(provider_of(device)).release_kept(device.index);
}

std::shared_ptr<Storage> allocate(Device device, size_t bytes) {
  return dynamic_cast<Allocator&>(provider_of(device)).allocate(device.index, bytes);
}

MemoryUse memory_use(Device device) {
  const Count& count = count_of(device);
  return {static_cast<uint64_t>(count.current.load()), static_cast<uint64_t>(count.peak.load())};
}

void reset_peak_memory(Device device) {
  Count& count = count_of(device);
  count.peak = count.current.load();
}

void count_memory(Device device, int64_t bytes) {
  Count& count = count_of(device);
  const int64_t now = count.current += bytes;
  int64_t peak = count.peak.load();
  while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
  }
}

}  // namespace athanor
