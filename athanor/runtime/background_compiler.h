// Compiles kernels on a thread of its own, while others run.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// One kernel after the other, with the least priority. A kernel is marked meanwhile, in athanor.db, by
/// "background|" and its problem. One that was under way when the program ended (which may have been killed
/// for another reason) is not compiled here again, but left for the tuner to try, which never tries it again
/// if it ends the program once more. What is wrong with a kernel is found when it is tried.
class BackgroundCompiler {
 public:
  BackgroundCompiler() = default;
  /// Leaves what has not begun. Waits for the kernel under way, at most a minute: then it ends the program.
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;
  BackgroundCompiler& operator=(const BackgroundCompiler&) = delete;

  /// `problem`: its key.
  void add(const std::string& problem, const Candidate& candidate);
  bool is_done(const std::string& problem, const Candidate& candidate);
  bool is_idle();
  /// Forgets what was added and has not begun.
  void drop();
  /// Spent compiling, so far.
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
  std::string under_way_;
  double seconds_ = 0;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace athanor
