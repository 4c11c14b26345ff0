#include "athanor/backends/gpu/staging.h"

#include <algorithm>
#include <cstring>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

Staging::Half& Staging::next_half() {
  Half& half = halves_[turn_++ % halves_.size()];
  if (half.memory == nullptr) half.memory = device_.driver().pin(half_bytes);
  if (half.sent != nullptr) half.sent->settle();  // the owner of what was sent is told if that failed
  half.sent = nullptr;
  return half;
}

template <class Fill>
void Staging::send(GpuQueue& queue, Place to, size_t bytes, const Fill& fill) {
  const std::scoped_lock one_at_a_time(mutex_);
  const SettlesOnError settled(queue);
  for (size_t done = 0; done < bytes;) {
    Half& half = next_half();
    const size_t piece = std::min(bytes - done, half_bytes);
    fill(half.memory, done, piece);
    queue.upload({to.memory, to.offset + done}, half.memory, piece);
    half.sent = queue.record();
    done += piece;
  }
}

void Staging::upload(GpuQueue& queue, Place to, const void* source, size_t bytes) {
  send(queue, to, bytes, [&](void* half, size_t done, size_t piece) {
    std::memcpy(half, static_cast<const std::byte*>(source) + done, piece);
  });
}

void Staging::copy_in(GpuQueue& queue, Place to, const Binding& from, size_t bytes) {
  send(queue, to, bytes, [&](void* half, size_t done, size_t piece) {
    from.storage->read(half, static_cast<size_t>(from.offset) + done, piece);
  });
}

void Staging::copy_out(GpuQueue& queue, Place from, size_t bytes, const Take& take) {
  const std::scoped_lock one_at_a_time(mutex_);
  const SettlesOnError settled(queue);
  for (size_t done = 0; done < bytes;) {
    Half& half = next_half();
    const size_t piece = std::min(bytes - done, half_bytes);
    queue.download(half.memory, {from.memory, from.offset + done}, piece);
    queue.record()->wait();
    take(half.memory, done, piece);
    done += piece;
  }
}

}  // namespace athanor::gpu
