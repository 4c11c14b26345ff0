// The tuner: measures on the device which candidate is fastest, checks it, and remembers it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/kernels/cache.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

struct Choice {
  size_t index = 0;  // into the candidates
  std::string why;   // "fastest of 3 by timing", "as for ...", "only candidate", "remembered as ..."
  std::vector<std::pair<std::string, double>> measured;  // names and seconds; {} when nothing was timed
};

/// Winners by problem key (device, its driver, threads, request): those that this run uses, from the
/// KernelCache or from a run that is resumed.
class TuningCache {
 public:
  static TuningCache& instance();

  /// The winner, if there is one. A restored winner always counts (by its name alone). One that was measured
  /// on another day counts only with `measured`, and only among the same `candidates`.
  std::optional<KernelCache::Winner> find(const std::string& key, const std::string& candidates,
                                          bool measured);
  void remember(const std::string& key, const KernelCache::Winner& winner);
  /// This process takes the winner from now on, though it did not time it.
  void take(const std::string& key, const KernelCache::Winner& winner);
  /// What this process looked up or found: saved with a run, so that resuming it takes the same kernels.
  const std::map<std::string, std::string>& used() const { return used_; }
  /// Takes these winners over whatever is remembered or measured.
  void restore(const std::map<std::string, std::string>& winners);
  bool is_restored(const std::string& key) const { return restored_.contains(key); }
  /// Problems that this process has timed.
  int64_t timed() const { return timed_; }
  /// False once a provisional choice could not be timed again because the machine was busy.
  bool is_quiet() const { return quiet_; }
  void found_busy() { quiet_ = false; }
  /// For tests: forgets what only this process knows, as if another process began.
  void start_anew();

 private:
  std::map<std::string, std::string> used_, restored_;
  std::map<std::string, KernelCache::Winner> known_;  // to this process
  int64_t timed_ = 0;
  bool quiet_ = true;
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
