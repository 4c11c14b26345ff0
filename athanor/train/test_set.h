// Testing a model on data that it was not trained on.
#pragma once
#include <cstdint>
#include <functional>

#include "athanor/nn/module.h"
#include "athanor/train/class_counts.h"
#include "athanor/train/task.h"

namespace athanor {

/// Mean loss, accuracy and confusions over a task's test batches, with the model in evaluation mode.
/// `go_on(done)` is called after each batch with the count so far; if it returns false, the sums so far are
/// returned.
TestResult test_model(nn::Module& model, Device device, const Task& task, int64_t batch_size,
                      const std::function<bool(int64_t done)>& go_on);

}  // namespace athanor
