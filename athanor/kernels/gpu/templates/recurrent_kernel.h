// Writes the kernels of lstm, gru and their gradients. A group takes some examples through all times:
// examples do not depend on each other, so no group waits for another.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// x and weights have `gates` blocks of h features: of an lstm in, forget, next, out; of a gru reset, update,
/// next.
struct Recurrence {
  bool lstm, gradient;
  int64_t batch, times, h;
  DType dtype;

  int64_t gates() const { return lstm ? 4 : 3; }
  int64_t real() const { return dtype == DType::f64 ? 8 : 4; }  // bytes of a number of the arithmetic
  /// The sums of a feature: forward, one for each gate over the state's features; backward, one over all
  /// gates' gradients.
  int64_t sums() const { return gradient ? 1 : gates(); }
  int64_t steps() const { return gradient ? gates() * h : h; }
};

/// A group's `rows` examples, and the neighbouring features that an item computes at a time.
struct RecurrencePoint {
  int64_t rows, width;
};

/// Packs the weight, so that neighbouring items read neighbouring numbers:
/// packed[block][step][sum][feature of the block].
std::string recurrence_pack_kernel(const Recurrence& recurrence);
/// An operand that a kernel reads, and its strides.
struct RecurrenceInput {
  std::string name;
  Ints strides;
};
/// All times, after packing.
std::string recurrence_kernel(const Recurrence& recurrence, const RecurrencePoint& point,
                              const std::vector<RecurrenceInput>& inputs);

}  // namespace athanor::gpu
