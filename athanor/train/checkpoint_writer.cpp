#include "athanor/train/checkpoint_writer.h"

#include <utility>

namespace athanor {

void CheckpointWriter::write(std::filesystem::path path, Checkpoint checkpoint) {
  wait();
  under_way_ =
      std::async(std::launch::async, [path = std::move(path), content = std::move(checkpoint)]() mutable {
        write_checkpoint(path, std::move(content));
      });
}

void CheckpointWriter::wait() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace athanor
