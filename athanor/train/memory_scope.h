// The memory limit of a run.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/memory/limit.h"
#include "athanor/train/config.h"
#include "athanor/train/task.h"

namespace athanor {

/// While it lives, what this thread plans and allocates stays within --memory-limit.
class MemoryScope {
 public:
  /// Computes what is pending, such as initial values, which is no part of the steps to come.
  MemoryScope(const TrainConfig& config, const Task& task, Device device);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::optional<MemoryLimit> limit_;
  int64_t before_;
};

}  // namespace athanor
