// Batches: the input of a training loop, for every kind of data.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/graph/host_array.h"

namespace athanor {

/// Examples that are used together: images f32[B, C, H, W] with labels i64[B] (or the probabilities of
/// classes, f32[B, classes], if images are mixed; or numbers to predict, f32[B, K]), or tokens i64[B, T] with
/// the token after each, i64[B, T].
struct Batch {
  HostArray inputs;
  HostArray labels;
};

/// A position: next() returns `next_batch` of `epoch`.
struct LoaderState {
  int64_t epoch = 0, next_batch = 0;
  bool operator==(const LoaderState&) const = default;
};

/// Goes through data epoch by epoch, in an order that depends only on the data and its options. One thread at
/// a time may use it.
class Batches {
 public:
  virtual ~Batches() = default;

  /// The next batch. At the end of an epoch it returns nothing, once; the call after that starts the next
  /// epoch. After an error it stays where it was, so that the next call tries the same batch again.
  virtual std::optional<Batch> next() = 0;
  /// Batches in an epoch.
  virtual int64_t batches() const = 0;

  /// The position, to be stored with a checkpoint. Batches of the same data and options that restore it
  /// continue with the same batch as this one.
  virtual LoaderState state() const = 0;
  /// Throws Error(value) if the epoch has no such batch.
  virtual void restore(const LoaderState& state) = 0;

 protected:
  Batches() = default;
  Batches(const Batches&) = default;
  Batches(Batches&&) = default;
  Batches& operator=(const Batches&) = default;
  Batches& operator=(Batches&&) = default;
};

/// Throws the Error(value) of Batches::restore() if there is no such position.
void check_position(const LoaderState& state, int64_t batches_in_epoch);

}  // namespace athanor
