// Compiles kernels on separate threads, while others run.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Compiles kernels with the lowest priority: one after the other, or several at once. While a kernel is
/// compiled it is marked in athanor.db, with "background|" and its problem. If the program ends meanwhile
/// (perhaps killed for another reason), the kernel is not compiled here again. The tuner tries it once more,
/// and never again if that ends the program too. Faults of a kernel are found when it is tried.
class BackgroundCompiler {
 public:
  BackgroundCompiler() = default;
  /// Drops the kernels that are not begun. Waits for those under way, for at most a minute; then it ends the
  /// program.
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;
  BackgroundCompiler& operator=(const BackgroundCompiler&) = delete;

  /// From now on so many may compile at once.
  void allow(size_t threads) { allowed_ = threads; }
  /// `problem`: its key.
  void add(const std::string& problem, const Candidate& candidate);
  bool is_done(const std::string& problem, const Candidate& candidate);
  bool is_idle() { return waiting() == 0; }
  /// How many are not done yet.
  size_t waiting();
  /// Drops the kernels of a problem that were added and are not begun.
  void drop(const std::string& problem);
  /// Seconds spent compiling so far.
  double seconds();

 private:
  struct Job {
    std::string problem;
    Candidate candidate;
  };
  void work();
  static void compile(const Job& job);

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Job> jobs_;
  std::set<std::string> done_;
  std::multiset<std::string> under_way_;
  double seconds_ = 0;
  bool ends_ = false;
  std::atomic<size_t> allowed_ = 1;
  size_t working_ = 0;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace athanor
