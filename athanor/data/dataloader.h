// Batches, prepared by worker threads.
#pragma once
#include <memory>
#include <optional>

#include "athanor/data/augmentation.h"
#include "athanor/data/batches.h"
#include "athanor/data/dataset.h"

namespace athanor {

struct LoaderOptions {
  int64_t batch_size = 32;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last = false;                                 // leave out a last batch that is not full
  int workers = 0;                                        // threads; 0 makes each batch in next()
  int prefetch = 4;                                       // batches that workers may be ahead
  std::shared_ptr<const Augmentation> augmentation = {};  // applied to the images; none: nothing
};

/// Goes through a dataset epoch by epoch.
///
/// Which examples are in which batch, and how they are augmented, depends on the dataset, batch_size,
/// shuffle, seed, drop_last, augmentation and the epoch's number; never on workers or prefetch. One thread at
/// a time may use a loader; it can be destroyed at any time.
class DataLoader final : public Batches {
 public:
  /// Throws Error(value) for options out of range or a dataset smaller than one batch.
  DataLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~DataLoader() override;
  DataLoader(DataLoader&& other) noexcept;
  DataLoader& operator=(DataLoader&& other) noexcept;

  /// Errors of the dataset, in any thread, are thrown here, and a label out of range is an Error(value). The
  /// loader then stays where it was, so that the next call tries the same batch again.
  std::optional<Batch> next() override;

  int64_t batches() const override;
  const Dataset& dataset() const;
  LoaderState state() const override;
  void restore(const LoaderState& state) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
