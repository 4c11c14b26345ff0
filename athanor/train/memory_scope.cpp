#include "athanor/train/memory_scope.h"

#include <algorithm>

#include "athanor/compile/options.h"
#include "athanor/runtime/eval_in_portions.h"

namespace athanor {

int64_t batches_beside_plan(const Task& task, int64_t batch_size, int64_t parts, Device device) {
  const int64_t part = task.batch_bytes(std::max<int64_t>(1, batch_size / parts));
  return (parts - 1) * part + (device == Device{} ? 0 : parts * part);
}

PlanLimitScope::PlanLimitScope(int64_t limit, int64_t beside)
    : limit_before_(compile_options().memory_limit), beside_before_(compile_options().memory_beside) {
  compile_options().memory_limit = limit;
  compile_options().memory_beside = beside;
}

PlanLimitScope::~PlanLimitScope() {
  compile_options().memory_limit = limit_before_;
  compile_options().memory_beside = beside_before_;
}

MemoryScope::MemoryScope(const TrainConfig& config, const Task& task, Device device) {
  if (config.memory_limit > 0) limit_.emplace(device, static_cast<uint64_t>(config.memory_limit));
  eval_in_portions();
  if (config.memory_limit > 0)
    of_plans_.emplace(config.memory_limit,
                      batches_beside_plan(task, config.batch_size, config.accumulate, device));
}

}  // namespace athanor
