// How well a model does on data that it was not trained on.
#pragma once
#include <cstdint>
#include <functional>

#include "athanor/nn/module.h"
#include "athanor/train/class_counts.h"
#include "athanor/train/task.h"

namespace athanor {

/// Mean loss, accuracy and what is taken for what, over a task's test batches, the model in evaluation (and
/// then back in the mode it was in). `go_on(done)` is asked after each batch with what was counted so far;
/// when it says no, the sums so far are given.
TestResult test_model(nn::Module& model, Device device, const Task& task, int64_t batch_size,
                      const std::function<bool(int64_t done)>& go_on);

}  // namespace athanor
