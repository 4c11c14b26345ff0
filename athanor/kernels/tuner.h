// The tuner: measures on the device which candidate is fastest, checks it, and remembers it.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

struct Choice {
  size_t index = 0;  // into the candidates
  std::string why;   // "fastest of 3 by timing", "as for ...", "only candidate", "remembered as ..."
  std::vector<std::pair<std::string, double>> measured;  // names and seconds; {} when nothing was timed
};

/// Is told before each candidate is timed: its number from 1, and of how many.
using TuningProgress = std::function<void(size_t number, size_t of)>;

/// Picks one of the candidates (at least one). With `measure`, the candidates are timed by the device's clock
/// on separate memory, and the winner is remembered. Dropped are those that cannot be compiled and those
/// whose results are wrong. Results are compared with the host's kernel; on the host itself, with the first
/// candidate.
///
/// If other work disturbed the timing, the winner is provisional: a later process times it again. If a
/// candidate is near the best rate that the device has reached so far (its roofline), the rest are not tried.
/// If timing is not worth its time (see alike.h), the winner of an alike problem is taken and checked. A
/// candidate that takes longer than a minute ends the program, with a message, and is never tried again.
Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure, const TuningProgress& progress = {});

/// A request's kernels, timed now whatever is remembered; the winner is remembered.
struct Measured {
  std::string winner;
  double seconds = 0, spread = 0;  // of the winner
  bool busy = false;               // this process had to wait for cores meanwhile
  bool disturbed = false;          // busy, or the samples disagree: provisional
  std::vector<std::pair<std::string, double>> times;
  std::vector<std::pair<std::string, std::string>> dropped;  // names and why
  size_t untried = 0;  // candidates, since the winner is near the roofline
};
Measured measure(Device device, const KernelRequest& request);

/// What a measurement depends on besides the problem: the device's name, driver, threads, libraries.
std::string environment_key(Device device);
std::string environment_key(const DeviceInfo& info);

/// Prepares kernels, several at once.
void prepare(const std::vector<const Kernel*>& kernels);

}  // namespace athanor
