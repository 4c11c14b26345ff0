#include "athanor/backends/gpu/landings.h"

#include <algorithm>
#include <cstring>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

void Landings::receive(const std::shared_ptr<Storage>& to, Place from) {
  GpuQueue& queue = device_.copies_out();
  {
    const std::scoped_lock lock(mutex_);
    for (size_t done = 0; done < to->bytes(); done += piece_bytes) {
      const size_t bytes = std::min(piece_bytes, to->bytes() - done);
      // After an error the block is not used again: the device may still write to it.
      void* const block = take_block(queue);
      queue.download(block, {from.memory, from.offset + done}, bytes);
      pieces_.push_back({block, to, done, bytes, queue.mark()});
      ++given_;
    }
  }
  to->set_ready(queue.record());
}

void* Landings::take_block(GpuQueue& queue) {
  if (free_.empty() && (blocks_ < most_ || pieces_.empty())) {
    void* const block = device_.driver().pin(piece_bytes);
    ++blocks_;
    return block;
  }
  if (free_.empty()) {
    const GpuEvent& oldest = *pieces_.front().copied;
    queue.await(oldest.mark(), oldest.launches());
    land_first(landed_ + 1);
  }
  void* const block = free_.back();
  free_.pop_back();
  return block;
}

void Landings::land_first(uint64_t count) {
  for (; landed_ < count; ++landed_) {
    const Piece& piece = pieces_.front();
    std::memcpy(static_cast<std::byte*>(piece.to->address()) + piece.offset, piece.block, piece.bytes);
    free_.push_back(piece.block);
    pieces_.pop_front();
  }
}

void Landings::land(uint64_t count) {
  if (landed_ >= count) return;
  const std::scoped_lock lock(mutex_);
  land_first(count);
}

bool Landings::try_land(uint64_t count) {
  if (landed_ >= count) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  land_first(count);
  return true;
}

}  // namespace athanor::gpu
