// Which examples form which batch, and making a batch; used only by dataloader.cpp.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "athanor/data/dataloader.h"

namespace athanor {

/// The pure part of a DataLoader: makes the batch with a given epoch and number. Safe to use from several
/// threads.
class BatchPlan {
 public:
  /// As DataLoader's constructor.
  BatchPlan(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  int64_t batches() const { return batches_; }
  /// `batch` is in [0, batches()).
  Batch make(int64_t epoch, int64_t batch) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order_of(int64_t epoch) const;
  /// An example and the classes of its pixels, augmented alike.
  void read_pixels(int64_t epoch, int64_t index, float* input, int64_t* labels) const;
  /// An example, augmented.
  void read(int64_t epoch, int64_t index, float* input, int64_t& label) const;

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  int64_t batches_;

  // The order of the last even and of the last odd epoch: at the end of an epoch, workers ask for both in
  // turns.
  struct KnownOrder {
    int64_t epoch = -1;
    Order order;
  };
  mutable std::mutex mutex_;
  mutable std::array<KnownOrder, 2> known_;
};

}  // namespace athanor
