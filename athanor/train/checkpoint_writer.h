// Checkpoints, written while training continues.
#pragma once
#include <filesystem>
#include <future>

#include "athanor/train/checkpoint.h"

namespace athanor {

/// Writes checkpoints on a separate thread, one after the other, so that training does not wait for the disk.
/// Each is written atomically: if the process is killed, the file is the last checkpoint or the one before.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  /// Waits for the write under way.
  ~CheckpointWriter() { wait_for_write(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins to write, after the previous write has ended. Throws what that one threw.
  void write(std::filesystem::path path, Checkpoint checkpoint);
  /// Returns when all is on the disk. Throws what the last write threw.
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
    if (under_way_.valid()) under_way_.wait();
  }

  std::future<void> under_way_;
};

}  // namespace athanor
