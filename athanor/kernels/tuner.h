// The tuner: measures on the device which candidate is fastest, checks it, and remembers it.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

/// How a kernel is chosen if a resumed run has not restored one (TuningCache::restore).
enum class Choosing : uint8_t {
  first,  // the first candidate, even if others were timed
  guess,  // nothing is timed now: the remembered choice, also of an alike problem; else the first
  timed,  // the remembered choice; else the fastest by timing
};

struct Choice {
  size_t index = 0;      // into the candidates
  std::string why = {};  // "fastest of 3 by timing", "as for ...", "only candidate", "remembered as ..."
  std::vector<std::pair<std::string, double>> measured = {};  // names and seconds; {} when nothing was timed
  std::vector<LeftOut> dropped = {};  // candidates that cannot run or are wrong, and others without a time
  bool timed = false;                 // by this call
  bool unchecked = false;  // a guess: its results have not been checked on this device (see guess.h)
};

/// Called before each candidate is timed, with its number from 1 and the number of candidates.
using TuningProgress = std::function<void(size_t number, size_t of)>;

/// Picks one of the candidates (at least one). With Choosing::timed, they are timed by the device's clock on
/// separate memory, and the winner is remembered. Candidates that cannot be compiled or whose results are
/// wrong are dropped. Results are compared with the host's kernel or, if it would take long, with another one
/// of the device (references.h); on the host itself, with the first candidate.
///
/// If other work disturbed the timing, the winner is provisional: a later process times it again. If a
/// candidate is near the best rate that the device has reached so far (its roofline), the rest are not tried.
/// If timing would cost more than it saves (see alike.h), the winner of an alike problem is taken and
/// checked. A candidate that takes longer than a minute ends the program, with a message, and is never tried
/// again.
Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              Choosing how, const TuningProgress& progress = {});

/// Held while kernels are timed: two threads that time at once would disturb each other.
std::mutex& timing_turn();

/// The result of measure(), which times a request's kernels even if a winner is remembered, and remembers the
/// new one.
struct Measured {
  std::string winner;
  double seconds = 0, spread = 0;  // of the winner
  bool busy = false;               // this process had to wait for cores meanwhile
  bool disturbed = false;          // busy, or the samples disagree: provisional
  std::vector<std::pair<std::string, double>> times;
  std::vector<LeftOut> dropped;
  size_t untried = 0;  // candidates not tried, since the winner is near the roofline
};
Measured measure(Device device, const KernelRequest& request);

/// What a measurement depends on besides the problem: the device's name, driver, threads, libraries.
std::string environment_key(Device device);
std::string environment_key(const DeviceInfo& info);

/// A kernel to compile, and the device that it is for.
struct Uncompiled {
  const Kernel* kernel;
  Device device;
};
/// Compiles kernels: several at once, or several in one program, as each device's compiler takes less time.
/// Faults of `guesses` are not reported here, but when these are checked (guess.h). If the program once ended
/// here, they are also left for that check.
/// `named` adds to an error what the kernel of this number is for.
using NamedError = std::function<Error(size_t kernel, const Error& error)>;
void prepare(const std::vector<Uncompiled>& kernels, const std::vector<Uncompiled>& guesses = {},
             const NamedError& named = {});

}  // namespace athanor
