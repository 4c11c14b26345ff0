// The winners that this process knows, by problem.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "athanor/kernels/cache.h"

namespace athanor {

/// Why a kernel is used that is not known to be the fastest.
enum class Taken {
  alike,  // it won for a problem that is alike
  kept,   // it ran already, and the fastest is hardly faster
  guess,  // nothing was timed yet
  spared  // it needs little scratch memory
};

/// Winners by problem key (device, its driver, threads, request): those that this run uses, from the
/// KernelCache or from a run that is resumed. Any thread may call it.
class TuningCache {
 public:
  static TuningCache& instance();

  /// The winner, if there is one. A restored winner always counts (by its name alone). One that was measured
  /// on another day counts only with `measured`, and only among the same `candidates`.
  std::optional<KernelCache::Winner> find(const std::string& key, const std::string& candidates,
                                          bool measured);
  /// Adds a winner that this process has timed; it replaces the present choice.
  void remember(const std::string& key, const KernelCache::Winner& winner);
  /// Adds a kernel that is used from now on.
  void take(const std::string& key, const KernelCache::Winner& winner, Taken why);
  /// Why the present choice was taken; empty if it won by timing, now or on another day.
  std::optional<Taken> taken(const std::string& key) const;
  /// What this process looked up or found: saved with a run, so that resuming it takes the same kernels.
  std::map<std::string, std::string> used() const;
  /// Uses these winners, even if others were remembered or measured.
  void restore(const std::map<std::string, std::string>& winners);
  bool is_restored(const std::string& key) const;
  bool has_timed(const std::string& key) const;
  /// Problems that this process has timed.
  int64_t timed() const;
  /// False once a provisional choice could not be timed again because the machine was busy.
  bool is_quiet() const;
  void found_busy();
  /// For tests: forgets what only this process knows, as in a new process.
  void start_anew();

 private:
  struct Known {
    std::map<std::string, std::string> used, restored;
    std::map<std::string, KernelCache::Winner> winners;  // of this process
    std::map<std::string, Taken> taken;                  // those of them that did not win
    std::set<std::string> problems_timed;
    int64_t timed = 0;
    bool quiet = true;
    void take(const std::string& key, const KernelCache::Winner& winner);
  };
  mutable std::mutex mutex_;
  Known known_;
};

}  // namespace athanor
