#include "athanor/train/batches_ahead.h"

#include <utility>

#include "athanor/base/clock.h"
#include "athanor/kernels/trace.h"

namespace athanor {

Uploaded BatchesAhead::upload() {
  std::optional<Batch> batch;
  {
    const TraceScope trace("wait for a batch");
    const Clock::time_point before = Clock::now();
    batch = batches_->next();
    if (!std::exchange(first_, false)) waited_seconds_ += seconds_since(before);
  }
  const TraceScope trace("upload");
  return {Tensor::from(batch->inputs, device_), Tensor::from(batch->labels, device_), counted(batch->labels)};
}

Uploaded BatchesAhead::take() {
  if (ahead_) return *std::exchange(ahead_, std::nullopt);
  before_ahead_ = batches_->state();
  return upload();
}

void BatchesAhead::take_ahead() {
  before_ahead_ = batches_->state();
  ahead_ = upload();
}

}  // namespace athanor
