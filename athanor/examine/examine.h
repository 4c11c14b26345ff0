// Examining a device: does it compute what the host computes?
#pragma once
#include <functional>
#include <string>

#include "athanor/kernels/trust.h"

namespace athanor {

struct ExamineOptions {
  /// Every op that is declared, in all its cases and dtypes. Otherwise a selection: each primitive, fused
  /// loops of each shape, products, convolutions, pooling and attention in sizes that training has, and one
  /// training step of a small net.
  bool whole = false;
  /// Is told before each part: what it is, its number from 1, and of how many.
  std::function<void(const std::string& part, size_t number, size_t of)> progress = {};
};

/// Runs ops on the device by the kernels that it would be given untuned, and compares each with the op's
/// reference in float64; the training step with that of the host. What the device cannot do at all (f64) is
/// left out. A driver that crashes or hangs does that to the caller. Throws Error(out_of_memory), which says
/// nothing of the device.
Examination examine(Device device, const ExamineOptions& options = {});

}  // namespace athanor
