// The memory limit of a run.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/memory/limit.h"
#include "athanor/train/config.h"
#include "athanor/train/task.h"

namespace athanor {

/// The bytes of batches on the device that a step's plan does not count, because it knows only one part: the
/// batch's other parts and, on a GPU, the next batch, which is uploaded meanwhile.
int64_t batches_beside_plan(const Task& task, int64_t batch_size, int64_t parts, Device device);

/// While it lives, this thread's plans have CompileOptions::memory_limit and memory_beside.
class PlanLimitScope {
 public:
  PlanLimitScope(int64_t limit, int64_t beside);
  ~PlanLimitScope();
  PlanLimitScope(const PlanLimitScope&) = delete;
  PlanLimitScope& operator=(const PlanLimitScope&) = delete;

 private:
  int64_t limit_before_, beside_before_;
};

/// While it lives, what this thread plans and allocates stays within --memory-limit.
class MemoryScope {
 public:
  /// Computes pending values first, such as initial values, because they are no part of the steps to come.
  MemoryScope(const TrainConfig& config, const Task& task, Device device);

 private:
  std::optional<MemoryLimit> limit_;
  std::optional<PlanLimitScope> of_plans_;
};

}  // namespace athanor
