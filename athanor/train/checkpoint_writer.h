// Checkpoints, written while training continues.
#pragma once
#include <deque>
#include <filesystem>
#include <future>

#include "athanor/train/checkpoint.h"

namespace athanor {

/// Writes checkpoints on a separate thread, one after the other, so that training does not wait for the disk.
/// Each is written atomically: if the process is killed, the file is the last checkpoint or the one before.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  /// Waits for the writes under way.
  ~CheckpointWriter() { wait_for_write(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Queues a write, which begins when the earlier ones have ended. Waits only if two earlier writes have not
  /// ended. If one of them failed, throws its error and does not write.
  void write(std::filesystem::path path, Checkpoint checkpoint);
  /// Returns when all is on the disk. Throws what a write threw; later ones may then be under way.
  void wait();

  /// Its destructor waits for the write under way, however the run ends, so that an error is reported after
  /// the last checkpoint is on the disk.
  class Scope {
   public:
    explicit Scope(const CheckpointWriter& writer) : writer_(writer) {}
    ~Scope() { writer_.wait_for_write(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CheckpointWriter& writer_;
  };

 private:
  void wait_for_write() const {
    if (!writes_.empty()) writes_.back().wait();
  }
  /// Waits for the oldest write, and throws its error.
  void end_first();

  std::deque<std::shared_future<void>> writes_;  // not ended, or failed with an error not yet thrown
};

}  // namespace athanor
