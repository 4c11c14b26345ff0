// Compiles kernels on separate threads, while others run.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Compiles kernels with the lowest priority: one after the other, or several at once. While a kernel is
/// compiled it is marked in athanor.db, with "background|" and its problem. If the program ends meanwhile
/// (perhaps killed for another reason), the kernel is not compiled here again. The tuner tries it once more,
/// and never again if that ends the program too. Faults of a kernel are found when it is tried.
class BackgroundCompiler {
 public:
  /// A thread ends after so long without work, and the process with it that compiles for it.
  explicit BackgroundCompiler(std::chrono::milliseconds patience = std::chrono::seconds(5))
      : patience_(patience) {}
  /// Drops the kernels that are not begun, and ends the processes that compile others. For what is compiled
  /// in this process it waits, for at most a minute; then it ends the program.
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
  /// How many threads there are, with those that have ended and hold a stack.
  size_t threads();

 private:
  struct Job {
    std::string problem;
    Candidate candidate;
  };
  void work();
  static void compile(const Job& job);

  const std::chrono::milliseconds patience_;
  std::stop_source stop_;

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Job> jobs_;
  std::set<std::string> done_;
  std::multiset<std::string> under_way_;
  double seconds_ = 0;
  std::atomic<size_t> allowed_ = 1;
  std::map<std::thread::id, std::thread> threads_;
  std::thread ended_;  // the last that did; it has joined the one before
};

}  // namespace athanor
