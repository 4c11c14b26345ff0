// A problem in a device's memory, on random numbers, ready to run any candidate.
#pragma once
#include <memory>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/timing.h"

namespace athanor {

/// The outputs of one run: all elements of each or, of a large one, those at its begin, middle and end.
using TrialResults = std::vector<HostArray>;

class Trial {
 public:
  /// Throws Error(out_of_memory) if the device has no room for the operands. `numbered_as`: the inputs with
  /// other strides; each element gets the number that it would have with those.
  Trial(Device device, const KernelRequest& request, const std::vector<OperandDesc>& numbered_as = {});

  TrialResults result(const Candidate& candidate);
  /// All elements of each output, as they lie in memory.
  TrialResults whole_result(const Candidate& candidate);
  /// Samples of the candidate's time, by take_samples(); gives up early above the limit, in seconds.
  Samples time(const Candidate& candidate, double limit, double share = 1);

 private:
  void launch(const Candidate& candidate);
  void run(const Candidate& candidate);  // to its end
  void compute_input(const Prologue& prologue);

  Device device_;
  std::vector<OperandDesc> results_;
  std::vector<std::shared_ptr<Storage>> inputs_, outputs_;
  std::vector<int64_t> first_;  // for each input: where its first element lies, in bytes
  std::shared_ptr<Storage> scratch_;
};

/// The request's result by the host's own kernel; {} if it has none.
TrialResults host_result(const KernelRequest& request);

/// Whether two results differ by no more than rounding in the type that the request computes in.
bool agree(const TrialResults& a, const TrialResults& b, const KernelRequest& request);

}  // namespace athanor
