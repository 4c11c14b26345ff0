#include "athanor/backends/gpu/staging.h"

#include <algorithm>
#include <cstring>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

void Staging::upload(GpuQueue& queue, Place to, const void* source, size_t bytes) {
  const std::scoped_lock one_at_a_time(mutex_);
  const auto* from = static_cast<const std::byte*>(source);
  for (size_t done = 0; done < bytes;) {
    Half& half = halves_[turn_++ % halves_.size()];
    if (half.memory == nullptr) half.memory = device_.driver().pin(half_bytes);
    if (half.sent != nullptr) half.sent->wait();
    const size_t piece = std::min(bytes - done, half_bytes);
    std::memcpy(half.memory, from + done, piece);
    queue.upload({to.memory, to.offset + done}, half.memory, piece);
    half.sent = queue.record();
    done += piece;
  }
}

}  // namespace athanor::gpu
