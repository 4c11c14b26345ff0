#include "athanor/train/memory_scope.h"

#include <algorithm>

#include "athanor/compile/options.h"
#include "athanor/runtime/eval_in_portions.h"

namespace athanor {

MemoryScope::MemoryScope(const TrainConfig& config, const Task& task, Device device)
    : before_(compile_options().memory_limit) {
  if (config.memory_limit > 0) limit_.emplace(device, static_cast<uint64_t>(config.memory_limit));
  eval_in_portions();
  // The next batch goes up while another device computes, and is no part of the step.
  if (config.memory_limit > 0)
    compile_options().memory_limit = std::max<int64_t>(
        1, config.memory_limit - (device == Device{} ? 0 : task.batch_bytes(config.batch_size)));
}

MemoryScope::~MemoryScope() { compile_options().memory_limit = before_; }

}  // namespace athanor
