// A problem in a device's memory, on random numbers, ready to run any candidate.
#pragma once
#include <memory>
#include <vector>

#include "athanor/kernels/kernel.h"
#include "athanor/kernels/timing.h"

namespace athanor {

class Trial {
 public:
  /// Throws Error(out_of_memory) if the device has no room for the operands.
  /// `numbered_as`: other strides of the inputs, by which their numbers are meant.
  Trial(Device device, const KernelRequest& request, const std::vector<OperandDesc>& numbered_as = {});

  /// The results of one run, one after the other.
  std::vector<double> result(const Candidate& candidate);
  /// Samples of the candidate's time, by take_samples(); gives up early above the limit, in seconds.
  Samples time(const Candidate& candidate, double limit, double share = 1);

 private:
  void launch(const Candidate& candidate);

  Device device_;
  std::vector<OperandDesc> results_;
  std::vector<std::shared_ptr<Storage>> inputs_, outputs_;
  std::shared_ptr<Storage> scratch_;
};

/// The request's result by the host's own kernel; {} if it has none.
std::vector<double> host_result(const KernelRequest& request);

/// Whether two results differ by no more than rounding in the type that the request computes in.
bool agree(const std::vector<double>& a, const std::vector<double>& b, const KernelRequest& request);

}  // namespace athanor
