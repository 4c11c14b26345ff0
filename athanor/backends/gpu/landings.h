// Copies to the host's memory that the host does not wait for when it gives them.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/memory/storage.h"

namespace athanor::gpu {

class GpuDevice;
class GpuQueue;

/// A discrete GPU writes beside the host's work only to pinned memory. So a copy goes there in pieces, and
/// whoever needs the content first (Storage::ready) moves it to its place. If all pinned memory is in use,
/// the oldest piece is moved, which by then has mostly arrived.
class Landings {
 public:
  static constexpr size_t piece_bytes = size_t{1} << 20;

  /// `most`: blocks of pinned memory, which are kept until the process ends.
  explicit Landings(GpuDevice& device, size_t most = 256) : device_(device), most_(most) {}
  Landings(const Landings&) = delete;
  Landings& operator=(const Landings&) = delete;

  /// Copies to all of `to`, memory of the host, as commands of the queue.
  void receive(GpuQueue& queue, Storage& to, Place from);

 private:
  struct Block {
    void* memory = nullptr;
    std::shared_ptr<Event> busy;  // until this has passed, a copy that nobody needs any more may write to it
  };
  class Piece;
  class Landing;
  Block take(GpuQueue& queue);
  void give_back(Block block);

  GpuDevice& device_;
  const size_t most_;
  std::mutex mutex_;
  size_t blocks_ = 0;
  std::vector<Block> free_;
  std::deque<std::weak_ptr<Piece>> under_way_;  // oldest first
};

}  // namespace athanor::gpu
