#include "athanor/memory/limit.h"

#include <array>
#include <atomic>

#include "athanor/memory/storage.h"

namespace athanor {
namespace {

constexpr uint64_t none = 0;

std::atomic<uint64_t>& limit_of(Device device) {
  static std::array<std::array<std::atomic<uint64_t>, max_devices>, max_providers> limits;
  return limits.at(device.provider).at(device.index);
}

}  // namespace

MemoryLimit::MemoryLimit(Device device, uint64_t bytes)
    : device_(device), before_(limit_of(device).exchange(bytes)) {}

MemoryLimit::~MemoryLimit() { limit_of(device_) = before_; }

uint64_t memory_left(Device device) {
  const uint64_t limit = limit_of(device), used = memory_use(device).current;
  if (limit == none) return UINT64_MAX;
  return used < limit ? limit - used : 0;
}

}  // namespace athanor
