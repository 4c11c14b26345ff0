#include "athanor/backends/gpu/landings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "athanor/backends/gpu/device.h"

namespace athanor::gpu {

/// A part of a copy, in one block.
class Landings::Piece {
 public:
  Piece(Landings& owner, void* block, std::shared_ptr<Event> copied, std::byte* to, size_t bytes)
      : owner_(owner), block_(block), copied_(std::move(copied)), to_(to), bytes_(bytes) {}
  ~Piece() { abandon(); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  bool arrived() const {
    const std::scoped_lock lock(mutex_);
    return block_ == nullptr || copied_ == nullptr || copied_->passed();
  }
  /// Waits until the device has copied it, and moves it to its place.
  void land() {
    const std::scoped_lock lock(mutex_);
    if (block_ == nullptr) return;
    if (copied_ != nullptr) copied_->wait();
    std::memcpy(to_, block_, bytes_);
    owner_.give_back({std::exchange(block_, nullptr), nullptr});
  }
  /// Its place is no more.
  void abandon() {
    const std::scoped_lock lock(mutex_);
    if (block_ != nullptr) owner_.give_back({std::exchange(block_, nullptr), copied_});
  }

 private:
  Landings& owner_;
  mutable std::mutex mutex_;
  void* block_;  // nullptr: done
  const std::shared_ptr<Event> copied_;
  std::byte* const to_;
  const size_t bytes_;
};

class Landings::Landing final : public Event {
 public:
  explicit Landing(std::vector<std::shared_ptr<Piece>> pieces) : pieces_(std::move(pieces)) {}
  ~Landing() override {
    for (const auto& piece : pieces_) piece->abandon();
  }
  bool passed() const override {
    if (!std::ranges::all_of(pieces_, [](const auto& piece) { return piece->arrived(); })) return false;
    wait();
    return true;
  }
  void wait() const override {
    for (const auto& piece : pieces_) piece->land();
  }

 private:
  std::vector<std::shared_ptr<Piece>> pieces_;
};

Landings::Block Landings::take(GpuQueue& queue) {
  for (;;) {
    std::shared_ptr<Piece> oldest;
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        Block block = std::move(free_.back());
        free_.pop_back();
        queue.wait(block.busy);
        return block;
      }
      while (oldest == nullptr && blocks_ >= most_ && !under_way_.empty()) {
        oldest = under_way_.front().lock();
        under_way_.pop_front();
      }
      if (oldest == nullptr) {
        ++blocks_;
        return {device_.driver().pin(piece_bytes), nullptr};
      }
    }
    oldest->land();
  }
}

void Landings::give_back(Block block) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(block));
}

void Landings::receive(GpuQueue& queue, Storage& to, Place from) {
  to.set_ready(nullptr);
  auto* const place = static_cast<std::byte*>(to.address());
  std::vector<std::shared_ptr<Piece>> pieces;
  for (size_t done = 0; done < to.bytes(); done += piece_bytes) {
    const size_t bytes = std::min(piece_bytes, to.bytes() - done);
    const Block block = take(queue);
    queue.download(block.memory, {from.memory, from.offset + done}, bytes);
    pieces.push_back(std::make_shared<Piece>(*this, block.memory, queue.record(), place + done, bytes));
    const std::scoped_lock lock(mutex_);
    while (!under_way_.empty() && under_way_.front().expired()) under_way_.pop_front();
    under_way_.push_back(pieces.back());
  }
  to.set_ready(std::make_shared<Landing>(std::move(pieces)));
}

}  // namespace athanor::gpu
