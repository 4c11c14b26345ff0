#include "athanor/train/batches_ahead.h"

#include <utility>

#include "athanor/kernels/trace.h"

namespace athanor {

Uploaded BatchesAhead::upload() {
  std::optional<Batch> batch;
  {
    const TraceScope trace("wait for a batch");
    batch = batches_->next();
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
