// Copies to the host's memory that the host does not wait for when it gives them.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/memory/storage.h"

namespace athanor::gpu {

class GpuDevice;
class GpuEvent;
class GpuQueue;

/// A discrete GPU writes beside the host's work only to pinned memory. So such a copy goes to pinned memory
/// in pieces, and the host moves them to their places. It does so as soon as it finds that an event after
/// them has passed (GpuEvent), so nobody who waits sees old content. If all pinned memory is in use, the
/// oldest piece is waited for and moved.
///
/// All pieces are commands of one queue, GpuDevice::copies_out(), and are numbered in its order. So one
/// number says which pieces come before a point of that queue, or of a queue that waited for it.
class Landings {
 public:
  static constexpr size_t piece_bytes = size_t{1} << 20;

  /// `most`: the blocks of pinned memory, each for a piece. They are kept until the process ends.
  explicit Landings(GpuDevice& device, size_t most = 64) : device_(device), most_(most) {}
  Landings(const Landings&) = delete;
  Landings& operator=(const Landings&) = delete;

  /// Copies to all of `to`, memory of the host, which is kept until then and gets an event (ready()).
  void receive(const std::shared_ptr<Storage>& to, Place from);
  /// The number of pieces that the queue was given so far.
  uint64_t given() const { return given_; }
  /// How many of these, from the first on, are in their places.
  uint64_t landed() const { return landed_; }
  /// Moves the first `count` pieces of all to their places. The device must have copied them.
  void land(uint64_t count);
  /// The same, but does nothing if another thread is at work. Returns whether they are in their places.
  bool try_land(uint64_t count);

 private:
  struct Piece {
    void* block;
    std::shared_ptr<Storage> to;
    size_t offset, bytes;
    std::shared_ptr<GpuEvent> copied;
  };
  void* take_block(GpuQueue& queue);
  void land_first(uint64_t count);

  GpuDevice& device_;
  const size_t most_;
  std::mutex mutex_;
  std::deque<Piece> pieces_;  // that are not in their places, oldest first
  std::vector<void*> free_;
  size_t blocks_ = 0;
  std::atomic<uint64_t> given_ = 0, landed_ = 0;
};

}  // namespace athanor::gpu
