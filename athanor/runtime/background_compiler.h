// Compiles kernels on separate threads, while others run.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Compiles kernels with the lowest priority: one after the other, or several at once. While a kernel is
/// compiled it is marked in athanor.db, with "background|" and its problem. If the program ends meanwhile
/// (perhaps killed for another reason), the kernel is not compiled here again. The tuner tries it once more,
/// and never again if that ends the program too. Faults of a kernel are found when it is tried.
class BackgroundCompiler {
 public:
  /// After `patience` without work, a thread ends, and so does the process that compiles for it.
  explicit BackgroundCompiler(std::chrono::milliseconds patience = std::chrono::seconds(5));
  /// Drops the kernels that are not begun, and ends the processes that compile others. Compiling in this
  /// process cannot be stopped: after two seconds its thread is left behind, see compilers_left_behind().
  ~BackgroundCompiler();
  BackgroundCompiler(const BackgroundCompiler&) = delete;
  BackgroundCompiler& operator=(const BackgroundCompiler&) = delete;

  /// Sets how many threads may compile at once from now on.
  void allow(size_t threads);
  /// `problem`: its key.
  void add(const std::string& problem, const Candidate& candidate);
  bool is_done(const std::string& problem, const Candidate& candidate);
  bool is_idle() { return waiting() == 0; }
  /// How many kernels are not done yet.
  size_t waiting();
  /// Drops the kernels of a problem that were added and are not begun.
  void drop(const std::string& problem);
  /// Seconds spent compiling so far.
  double seconds();
  /// How many threads there are, including one that has ended but still holds its stack.
  size_t threads();

 private:
  struct Shared;
  /// Runs in a thread, until it has nothing to do. Returns whether the thread was left behind.
  static bool work(Shared& all);

  std::shared_ptr<Shared> shared_;  // shared with threads that may outlive this
};

/// How many kernels are still being compiled for compilers that are gone. A program that ends by exit() waits
/// for them, for at most a minute; std::_Exit() does not.
size_t compilers_left_behind();

}  // namespace athanor
