// The kernels of a run: tuned while it goes on, recorded, and repeated.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/runtime/tuning_session.h"
#include "athanor/train/metrics.h"
#include "athanor/train/reporter.h"

namespace athanor {

/// By step: the kernels that change at this step. The first step has all.
using KernelRecord = std::map<int64_t, StepKernels>;

/// The metrics of a run, given by its folder or by its metrics.jsonl. Throws Error(io|format).
std::vector<StepMetrics> metrics_of(const std::filesystem::path& run);

/// The kernels that these steps' metrics record.
KernelRecord record_in(const std::vector<StepMetrics>& steps);

/// Lets the kernels of a run's steps change at recorded steps only.
class RunTuning {
 public:
  RunTuning(const TrainConfig& config, Device device);

  /// For a new run that repeats another's kernels (TrainConfig::choices), given the other's metrics: takes
  /// the kernels of its first step now, and makes the changes when their steps come. Throws Error(io|format)
  /// for a record that cannot be read.
  void repeat_another(const std::vector<StepMetrics>& steps);
  /// Makes these changes, of steps after the last checkpoint, again when their steps come.
  void repeat(const KernelRecord& changes);
  /// For the checkpoint: the changes that are still to be made.
  const KernelRecord& to_come() const { return to_come_; }
  /// Continues with the kernels of the last of these steps, for a resumed run.
  void go_on_from(const std::vector<StepMetrics>& steps);

  /// Tuning runs while a Scope lives, if the run's options ask for it.
  class Scope {
   public:
    explicit Scope(RunTuning& tuning) : tuning_(tuning) { tuning.begin(); }
    ~Scope() { tuning_.session_.reset(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunTuning& tuning_;
  };

  /// Before a step is built: changes kernels, or continues tuning. `plan`: that of the step before; `settle`
  /// waits for all steps so far. Throws Interrupted.
  void before_step(int64_t step, const std::shared_ptr<const Plan>& plan, Reporter& reporter,
                   const std::function<void()>& settle);
  /// The kernels of a step that differ from those of the step before. Throws Error(value) if a run that
  /// repeats another has other kernels than that.
  StepKernels news(int64_t step, const std::shared_ptr<const Plan>& plan);
  /// For a change after which other kernels run, such as another number of threads: starts tuning again,
  /// because earlier results say nothing about them.
  void begin_anew();
  TuningState state() const;

 private:
  void begin();
  void restore(const StepKernels& kernels) const;

  Tuning tuning_;
  std::string repeated_;  // the run whose kernels are repeated; "" for none
  Device device_;
  KernelRecord to_come_;
  StepKernels in_force_;              // as recorded in the metrics
  StepKernels expected_;              // that a repeating run must have from the present step on
  std::shared_ptr<const Plan> plan_;  // of the last step
  std::optional<size_t> reported_timed_;
  TuningState earlier_;  // of sessions before the present one
  std::optional<TuningSession> session_;
};

}  // namespace athanor
