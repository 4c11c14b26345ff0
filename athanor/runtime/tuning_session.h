// Tuning while a program runs: the first run of a plan uses the best guesses, which faster kernels replace
// later.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/kernels/contest.h"
#include "athanor/runtime/background_compiler.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {

/// How much time tuning may take: as a share of the time since the session began, and in all.
struct TuningBudget {
  double share = 0.1;
  double seconds = 30;
};

/// A kernel that replaces another from the next evaluation on.
struct KernelChange {
  std::string request, before, now;
  double speedup = 1;  // of the kernel
};

/// The progress of a session.
struct TuningState {
  size_t problems = 0;  // problems of the plan that could be tuned when it began
  size_t timed = 0;     // how many of them were timed
  double seconds = 0;   // spent
  bool over = false;    // nothing is left, or the seconds are spent
};

/// Tunes the plan that a thread runs again and again, between its runs. While a session exists, plans of its
/// thread are made with Tuning::quick.
///
/// The most expensive problems come first: one run of the plan is measured step by step. Another thread
/// compiles the candidates. The thread that runs the plan times them, one in each call of between_steps(),
/// within the budget. If compiling uses the device's own cores, it counts too. Marks, watchdog, comparison
/// with the host's results and provisional winners are those of the tuner (kernels/contest.h).
///
///     TuningSession tuning;
///     while (...) {
///       tuning.between_steps(last_plan());
///       ... eval(...);
///     }
class TuningSession {
 public:
  using SecondsClock = std::function<double()>;
  /// `clock`: for tests.
  explicit TuningSession(TuningBudget budget = {}, SecondsClock clock = {});
  ~TuningSession();
  TuningSession(const TuningSession&) = delete;
  TuningSession& operator=(const TuningSession&) = delete;

  /// Continues tuning. `plan`: the last step's; nullptr before the first. `finish` is called before
  /// something is timed; it must wait until the device has finished its work. Returns the changes: plans with
  /// these problems are compiled again. Throws Interrupted.
  std::vector<KernelChange> between_steps(const std::shared_ptr<const Plan>& plan,
                                          const std::function<void()>& finish = {});
  TuningState state() const;

 private:
  struct Problem {
    std::string key;
    Device device;
    KernelRequest request;
    std::string kernel;                      // the one that runs now
    double gain = 0;                         // share of its time that is expected to be saved
    double seconds = 0;                      // that a step spends on it
    std::vector<Candidate> candidates = {};  // {}: not asked for yet
    size_t compiled = 0;                     // how many were given to the compiler
  };
  void look_at(const std::shared_ptr<const Plan>& plan);
  bool rank();
  void begin_next();
  /// The kernel that runs now comes first: it needs no compiling, and the others are compared with it.
  static void list_candidates(Problem& problem);
  void compile_ahead();
  bool is_ready(const Candidate& candidate);
  double room();
  void spend_compiling();
  std::vector<KernelChange> conclude();

  CompileOptions before_;
  TuningBudget budget_;
  SecondsClock clock_;
  double begin_ = 0, spent_ = 0, charged_ = 0;
  double a_timing_, a_compilation_;  // seconds that one is expected to take
  size_t problems_at_first_ = 0, timed_ = 0;
  bool over_ = false, looked_ = false;
  std::shared_ptr<const Plan> plan_;
  std::optional<ScopedProfile> profile_;
  std::vector<Problem> problems_;  // the next problem is the last
  Problem problem_;                // the contest's
  std::unique_ptr<Contest> contest_;
  BackgroundCompiler compiler_;
};

}  // namespace athanor
