// The number of CPU threads that a run computes with: fewer while other programs use the cores.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/os/load.h"
#include "athanor/device/device.h"
#include "athanor/train/metrics.h"
#include "athanor/train/reporter.h"

namespace athanor {

/// Decides how many of a process's cores are left to it. Threads share each kernel's work evenly and wait for
/// each other, so one thread that gets half a core halves the speed of all: one thread fewer is faster. A
/// part-time thread then helps on the other core, and changes no result (backends/cpu/part_time.h). FreeCores
/// takes 1.5 s of other programs' work to lose a thread, and 5 s without it to get it back.
class FreeCores {
 public:
  static constexpr double seconds_between_looks = 0.5;

  /// `most`: threads on a quiet machine; `now`: threads at first.
  FreeCores(int most, int now) : most_(most), now_(now) {}
  /// `others`: cores that other programs kept busy since the last look. Returns the number of threads.
  int operator()(double others);
  /// As operator(), but at once: at the start of a run.
  int at_once(double others);

 private:
  int wanted(double others) const;
  int most_, now_;
  int looks_ = 0;         // successive looks that wanted fewer threads (negative), or more
  int least_change_ = 0;  // that they wanted
};

/// By step: the number of threads from this step on.
using ThreadRecord = std::map<int64_t, int64_t>;

/// The numbers of threads that these steps' metrics record.
ThreadRecord threads_in(const std::vector<StepMetrics>& steps);

/// Sets the number of CPU threads of the process to `threads`. For each core that this leaves out of `most`,
/// the number on a quiet machine, a part-time thread helps, unless all of them together would add less than
/// a tenth. `most` 0: the same number.
void use_threads(int64_t threads, int64_t most);

/// Lets the number of threads of a run's steps change at recorded steps only, since results depend on it.
class RunThreads {
 public:
  using CoreClock = std::function<std::optional<os::CoreTime>()>;

  /// Sets the number of CPU threads of the process: `threads` (0: config.threads). It may change later only
  /// if the run computes on the CPU, kernels may change too (TrainConfig::tune), the user has not set it, and
  /// memory is not limited: kernels need other scratch memory with another number of threads.
  /// `most`: threads on a quiet machine; 0: the same number. `cores`: for tests.
  RunThreads(const TrainConfig& config, Device device, int64_t threads, int64_t most,
             CoreClock cores = os::core_time);

  /// For a new run that repeats another: sets the number of threads of its first step now, and makes the
  /// changes when their steps come.
  void repeat_another(const ThreadRecord& changes);
  /// Makes these changes when their steps come, and no others before the last of them.
  void repeat(const ThreadRecord& changes);
  /// For the checkpoint: the changes that are still to be made.
  const ThreadRecord& to_come() const { return to_come_; }
  /// Continues with the number of threads of the last of these steps, for a resumed run.
  void go_on_from(const std::vector<StepMetrics>& steps);
  int64_t most() const { return most_; }

  /// Before a step is built. Returns whether the number has changed; plans are then compiled again. `settle`
  /// waits for all steps so far.
  bool before_step(int64_t step, Reporter& reporter, const std::function<void()>& settle);
  /// For the step's metrics: the number, if the step before had another or there was none; otherwise 0.
  int64_t news();

 private:
  std::optional<double> others();

  int64_t most_;
  bool adapts_;
  CoreClock cores_;
  FreeCores free_;
  ThreadRecord to_come_;
  std::optional<os::CoreTime> looked_;
  Clock::time_point looked_at_;
  bool first_look_ = true;
  int64_t in_force_ = 0;  // as recorded in the metrics
};

}  // namespace athanor
