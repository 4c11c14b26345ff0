// Batches for a device. The next one is uploaded while the device computes.
#pragma once
#include <memory>
#include <optional>

#include "athanor/data/batches.h"
#include "athanor/train/learner.h"

namespace athanor {

class BatchesAhead {
 public:
  /// Each batch is uploaded in this many parts of equal size.
  BatchesAhead(std::unique_ptr<Batches> batches, Device device, int64_t parts)
      : batches_(std::move(batches)), device_(device), parts_(parts) {}

  /// The next batch. Must not be called at the end of an epoch.
  Uploaded take();
  /// Puts back the batch that was taken last: it is the next one again.
  void give_back(Uploaded batch) { ahead_ = std::move(batch); }
  /// Uploads the next batch now.
  void take_ahead();
  /// Drops the batch that was uploaded ahead, to free its memory. Nothing may be taken afterwards.
  void drop() { ahead_.reset(); }

  /// The position before the batch that take() returns next.
  LoaderState position() const { return ahead_ ? before_ahead_ : batches_->state(); }
  bool epoch_is_over() const { return position().next_batch == batches_->batches(); }
  /// At the end of an epoch: starts the next one.
  void begin_epoch() { batches_->next(); }
  int64_t batches_in_epoch() const { return batches_->batches(); }
  void restore(const LoaderState& state) { batches_->restore(state); }
  /// How long take() and take_ahead() waited for batches, without the first one.
  double waited_seconds() const { return waited_seconds_; }

 private:
  Uploaded upload();

  std::unique_ptr<Batches> batches_;
  Device device_;
  int64_t parts_;
  std::optional<Uploaded> ahead_;
  LoaderState before_ahead_;
  bool first_ = true;
  double waited_seconds_ = 0;
};

}  // namespace athanor
