// Examination: does a device compute what the host computes?
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/kernels/trust.h"

namespace athanor {

struct ExamineOptions {
  /// Every op that is declared, in all its cases and dtypes. Otherwise a selection: each primitive, fused
  /// loops of each shape, products, convolutions, pooling and attention in sizes that training has, every
  /// other op with a kernel, and one training step of a small net. The selection ends with the first part
  /// that is wrong.
  bool whole = false;
  /// The names of the parts to run; {}: all.
  std::vector<std::string> only = {};
  /// Called before each part with its name, its number from 1, and the number of parts.
  std::function<void(const std::string& part, size_t number, size_t of)> progress = {};
};

/// Runs ops on the device with its untuned kernels, and compares each with the op's float64 reference, and
/// the training step with the host's. Dtypes that the device does not support (f64) are left out. A driver
/// that crashes or hangs does so in the caller's process. Throws Error(out_of_memory), which is not a
/// verdict.
Examination examine(Device device, const ExamineOptions& options = {});

/// The names of an examination's parts, in at most `most` groups, which processes can examine side by side in
/// about the same time. No kernel is compiled twice.
std::vector<std::vector<std::string>> examination_groups(size_t most, bool whole = false);

}  // namespace athanor
