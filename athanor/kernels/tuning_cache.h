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
  /// Adds a winner that this process did not time; it is used from now on.
  void take(const std::string& key, const KernelCache::Winner& winner);
  /// The same for a kernel that was chosen only as the first candidate: it is not remembered.
  void take_guess(const std::string& key, const KernelCache::Winner& guess);
  bool is_guess(const std::string& key) const;
  /// The same for a kernel that was chosen because it needs little scratch memory.
  void take_spared(const std::string& key, const KernelCache::Winner& spared);
  bool is_spared(const std::string& key) const;
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
    std::set<std::string> guesses, spared;               // those of them that are such
    std::set<std::string> problems_timed;
    int64_t timed = 0;
    bool quiet = true;
    void take(const std::string& key, const KernelCache::Winner& winner);
  };
  mutable std::mutex mutex_;
  Known known_;
};

}  // namespace athanor
