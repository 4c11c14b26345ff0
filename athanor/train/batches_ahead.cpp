#include "athanor/train/batches_ahead.h"

#include <algorithm>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/kernels/trace.h"

namespace athanor {
namespace {

/// Part `part` of `parts` equal parts along the first axis.
HostArray rows(const HostArray& all, int64_t part, int64_t parts) {
  HostArray some(all.dtype, all.shape.with(0, all.shape[0] / parts));
  const auto size = static_cast<std::ptrdiff_t>(some.bytes.size());
  std::copy_n(all.bytes.begin() + part * size, size, some.bytes.begin());
  return some;
}

}  // namespace

Uploaded BatchesAhead::upload() {
  std::optional<Batch> batch;
  {
    const TraceScope trace("wait for a batch");
    const Clock::time_point before = Clock::now();
    batch = batches_->next();
    if (!std::exchange(first_, false)) waited_seconds_ += seconds_since(before);
  }
  const TraceScope trace("upload");
  Uploaded uploaded{.parts = {}, .counted = counted(batch->labels)};
  for (int64_t part = 0; part < parts_; ++part) {
    const HostArray targets = rows(batch->labels, part, parts_);
    uploaded.parts.push_back({Tensor::from(rows(batch->inputs, part, parts_), device_),
                              Tensor::from(targets, device_), counted(targets)});
  }
  return uploaded;
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
