// Batches, prepared by worker threads.
#pragma once
#include <memory>
#include <optional>

#include "athanor/data/dataset.h"
#include "athanor/graph/host_array.h"

namespace athanor {

struct LoaderOptions {
  int64_t batch_size = 32;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last = false;  // leave out a last batch that is not full
  int workers = 0;         // threads; 0 makes each batch in next()
  int prefetch = 4;        // batches that workers may be ahead
};

struct Batch {
  HostArray inputs;  // f32 [B, C, H, W]
  HostArray labels;  // i64 [B]
};

/// A loader's position: next() gives `next_batch` of `epoch`.
struct LoaderState {
  int64_t epoch = 0, next_batch = 0;
  bool operator==(const LoaderState&) const = default;
};

/// Goes through a dataset epoch by epoch.
///
/// Which examples are in which batch depends on the dataset, batch_size, shuffle, seed, drop_last and the
/// epoch's number; never on workers or prefetch. One thread at a time may use a loader; it can be destroyed
/// at any time.
class DataLoader {
 public:
  /// Throws Error(value) for options out of range or a dataset that has not even one batch.
  DataLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~DataLoader();
  DataLoader(DataLoader&& other) noexcept;
  DataLoader& operator=(DataLoader&& other) noexcept;

  /// The next batch. At the end of an epoch it returns nothing, once; the call after that starts the next
  /// epoch.
  ///
  /// Errors of the dataset, in any thread, are thrown here, and a label out of range is an Error(value). The
  /// loader then stays where it was, so that the next call tries the same batch again.
  std::optional<Batch> next();

  /// Batches in an epoch.
  int64_t batches() const;
  const Dataset& dataset() const;

  /// The position, to be stored with a checkpoint. A loader with the same dataset and options that restores
  /// it continues with the same batch as this one.
  LoaderState state() const;
  /// Throws Error(value) if the epoch has no such batch.
  void restore(const LoaderState& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
