// Whether a problem is small enough to be timed: a plan can be made for more than a machine can hold.
#pragma once
#include <cstdint>
#include <span>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Whether timing the request's candidates takes at most half of the memory that is left, on the device and
/// on the host (which makes the numbers and checks the results), and no more than a TrialMemoryLimit and a
/// MemoryLimit allow.
bool fits_trial(Device device, const KernelRequest& request, std::span<const Candidate> candidates);

/// While one exists, timing a kernel takes at most this many bytes, on this thread. The outermost wins.
class TrialMemoryLimit {
 public:
  explicit TrialMemoryLimit(uint64_t bytes);
  ~TrialMemoryLimit();
  TrialMemoryLimit(const TrialMemoryLimit&) = delete;
  TrialMemoryLimit& operator=(const TrialMemoryLimit&) = delete;

 private:
  bool outermost_;
};

}  // namespace athanor
