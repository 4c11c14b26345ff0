// How well a model does on pictures that it was not trained on.
#pragma once
#include <cstdint>
#include <functional>

#include "athanor/data/dataset.h"
#include "athanor/nn/module.h"
#include "athanor/train/metrics.h"

namespace athanor {

/// Mean loss and accuracy over a whole dataset, in batches of `batch_size`, the model in evaluation (and then
/// back in the mode it was in). The last batch is filled up with pictures that do not count, so that all run
/// the same plan. `go_on(done)` is asked after each batch with the pictures done so far; when it says no, the
/// sums so far are given.
MetricsSum test_model(nn::Module& model, Device device, std::shared_ptr<const Dataset> dataset,
                      int64_t batch_size, int workers, const std::function<bool(int64_t done)>& go_on);

}  // namespace athanor
