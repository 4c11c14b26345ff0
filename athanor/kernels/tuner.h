// The tuner: which candidate runs is measured on the device in hand, checked, and remembered.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

struct Choice {
  size_t index = 0;  // into the candidates
  std::string why;   // "fastest of 3", "only candidate", "remembered", "first (tuning off)"
  std::vector<std::pair<std::string, double>> measured;  // names and seconds; {} when nothing was timed
};

/// Remembered winners: problem key (device, its driver, threads, request) to candidate name. One per process,
/// loaded from and saved to a file in the user's cache folder ($ATHANOR_CACHE, $XDG_CACHE_HOME/athanor or
/// ~/.cache/athanor).
class TuningCache {
 public:
  static TuningCache& instance();

  /// The winner, or "". One that was restored always counts, one that was measured on another day only with
  /// `measured`.
  std::string find(const std::string& key, bool measured);
  void remember(const std::string& key, const std::string& winner);
  /// What this process looked up or found: saved with a run, so that resuming it takes the same kernels.
  const std::map<std::string, std::string>& used() const { return used_; }
  /// Takes these winners over whatever is remembered or measured.
  void restore(const std::map<std::string, std::string>& winners);

 private:
  TuningCache();
  void load();
  void save();
  std::map<std::string, std::string> used_, restored_, remembered_;
};

/// Picks among candidates (at least one). With `measure`, candidates are timed on memory of their own, those
/// whose results differ from the first's are dropped, and the winner is remembered.
Choice choose(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
              bool measure);

}  // namespace athanor
