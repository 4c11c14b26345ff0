#include "athanor/train/checkpoint_writer.h"

#include <chrono>
#include <utility>

namespace athanor {

namespace {

// The last checkpoint and the best. More would only take memory.
constexpr size_t most_writes = 2;

}  // namespace

void CheckpointWriter::write(std::filesystem::path path, Checkpoint checkpoint) {
  while (!writes_.empty() && (writes_.size() == most_writes ||
                              writes_.front().wait_for(std::chrono::seconds(0)) == std::future_status::ready))
    end_first();
  auto write = [before = writes_.empty() ? std::shared_future<void>() : writes_.back(),
                path = std::move(path), content = std::move(checkpoint)]() mutable {
    if (before.valid()) std::exchange(before, {}).wait();
    write_checkpoint(path, std::move(content));
  };
  writes_.push_back(std::async(std::launch::async, std::move(write)).share());
}

void CheckpointWriter::wait() {
  while (!writes_.empty()) end_first();
}

void CheckpointWriter::end_first() {
  const std::shared_future<void> first = std::move(writes_.front());
  writes_.pop_front();
  first.get();
}

}  // namespace athanor
