// Checkpoints written behind a run.
#pragma once
#include <filesystem>
#include <future>

#include "athanor/train/checkpoint.h"

namespace athanor {

/// Writes checkpoints on a thread of its own, one after the other, so that training does not wait for the
/// disk. Each is written atomically: whenever the process is killed, the file is the last one or the one
/// before.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  /// Waits for the write under way.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins to write, after the write before has ended. Throws what that one threw.
  void write(std::filesystem::path path, Checkpoint checkpoint);
  /// Returns when all is on the disk. Throws what the last write threw.
  void wait();

 private:
  std::future<void> under_way_;
};

}  // namespace athanor
