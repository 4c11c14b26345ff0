#include "athanor/train/task.h"

#include <algorithm>

#include "athanor/train/classification.h"

namespace athanor {

int64_t counted(const HostArray& targets) {
  if (targets.dtype != DType::i64) return targets.shape.rank() > 0 ? targets.shape[0] : 1;
  const auto labels = targets.as<int64_t>();
  return static_cast<int64_t>(labels.size()) - std::ranges::count(labels, ignored_target);
}

std::unique_ptr<const Task> open_task(const TrainConfig& config) {
  return std::make_unique<Classification>(config);
}

}  // namespace athanor
