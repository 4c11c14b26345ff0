// A problem in a device's memory, on random numbers, ready to run any candidate.
#pragma once
#include <memory>
#include <vector>

#include "athanor/kernels/kernel.h"
#include "athanor/kernels/timing.h"
#include "athanor/kernels/trial_results.h"

namespace athanor {

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

}  // namespace athanor
