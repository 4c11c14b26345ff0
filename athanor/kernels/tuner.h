// The tuner: which candidate runs is measured on the device in hand, checked, and remembered.
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
  std::string why;   // "fastest of 3", "only candidate", "remembered", "first (tuning off)"
  std::vector<std::pair<std::string, double>> measured;  // names and seconds; {} when nothing was timed
};

/// Winners by problem key (device, its driver, threads, request): what this run takes, from the KernelCache
/// or from a run that is resumed.
class TuningCache {
 public:
  static TuningCache& instance();

  /// The winner, if there is one. One that was restored always counts (by its name alone), one that was
  /// measured on another day only with `measured`, and only among the same `candidates`.
  std::optional<KernelCache::Winner> find(const std::string& key, const std::string& candidates,
                                          bool measured);
  void remember(const std::string& key, const KernelCache::Winner& winner);
  /// What this process looked up or found: saved with a run, so that resuming it takes the same kernels.
  const std::map<std::string, std::string>& used() const { return used_; }
  /// Takes these winners over whatever is remembered or measured.
  void restore(const std::map<std::string, std::string>& winners);

 private:
  std::map<std::string, std::string> used_, restored_;
  std::map<std::string, KernelCache::Winner> known_;  // to this process
};

/// Is told before each candidate is timed: its number from 1, and of how many.
using TuningProgress = std::function<void(size_t number, size_t of)>;

/// Picks among candidates (at least one). With `measure`, candidates are timed by the device's clock on
/// memory of their own; those whose results are wrong are dropped (checked against the host's kernel where
/// the device is not the host, else against the first), as are those that cannot be compiled, and the winner
/// is remembered. Where one comes near what the device has reached at best in all timing (its roofline), the
/// rest are not tried. A candidate that takes longer than a minute ends the program, with a message, and is
/// never tried again.
Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure, const TuningProgress& progress = {});

/// A request's kernels, timed now whatever is remembered; the winner is remembered.
struct Measured {
  std::string winner;
  double seconds = 0;  // of the winner
  std::vector<std::pair<std::string, double>> times;
  std::vector<std::pair<std::string, std::string>> dropped;  // names and why
  size_t untried = 0;  // candidates, since the winner is near the roofline
};
Measured measure(Device device, const KernelRequest& request);

/// What a measurement depends on besides the problem: the device's name, driver, threads, libraries.
std::string environment_key(Device device);

/// Prepares kernels, several at once.
void prepare(const std::vector<const Kernel*>& kernels);

}  // namespace athanor
