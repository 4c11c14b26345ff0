#include "athanor/backends/gpu/staging.h"

#include <algorithm>
#include <cstring>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

Staging::Block& Staging::next_block() {
  Block& block = blocks_[turn_++ % blocks_.size()];
  if (block.memory == nullptr) block.memory = device_.driver().pin(bytes_);
  if (block.sent != nullptr) block.sent->settle();  // the owner of what was sent is told if that failed
  block.sent = nullptr;
  return block;
}

template <class Fill>
void Staging::send(GpuQueue& queue, Place to, size_t bytes, const Fill& fill) {
  const std::scoped_lock one_at_a_time(mutex_);
  const SettlesOnError settled(queue);
  for (size_t done = 0; done < bytes;) {
    Block& block = next_block();
    const size_t piece = std::min(bytes - done, bytes_);
    fill(block.memory, done, piece);
    queue.upload({to.memory, to.offset + done}, block.memory, piece);
    block.sent = queue.record();
    done += piece;
  }
}

void Staging::upload(GpuQueue& queue, Place to, const void* source, size_t bytes) {
  send(queue, to, bytes, [&](void* block, size_t done, size_t piece) {
    std::memcpy(block, static_cast<const std::byte*>(source) + done, piece);
  });
}

void Staging::copy_in(GpuQueue& queue, Place to, const Binding& from, size_t bytes) {
  send(queue, to, bytes, [&](void* block, size_t done, size_t piece) {
    from.storage->read(block, static_cast<size_t>(from.offset) + done, piece);
  });
}

void Staging::copy_out(GpuQueue& queue, Place from, size_t bytes, const Take& take) {
  const std::scoped_lock one_at_a_time(mutex_);
  const SettlesOnError settled(queue);
  for (size_t done = 0; done < bytes;) {
    Block& block = next_block();
    const size_t piece = std::min(bytes - done, bytes_);
    queue.download(block.memory, {from.memory, from.offset + done}, piece);
    queue.record()->wait();
    take(block.memory, done, piece);
    done += piece;
  }
}

}  // namespace athanor::gpu
