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

/// By step: the kernels that a run takes from this step on, where others ran before. The first step has all.
using KernelRecord = std::map<int64_t, StepKernels>;

/// The metrics of a run, given by its folder or by its metrics.jsonl. Throws Error(io|format).
std::vector<StepMetrics> metrics_of(const std::filesystem::path& run);

/// What these steps' metrics say of kernels.
KernelRecord record_in(const std::vector<StepMetrics>& steps);

/// Lets the kernels of a run's steps change at recorded steps only.
class RunTuning {
 public:
  RunTuning(const TrainConfig& config, Device device);

  /// For a new run that repeats another's kernels (TrainConfig::choices), by the other's metrics: takes those
  /// of its first step now, and the changes when their steps come. Throws Error(io|format) for a record that
  /// cannot be read.
  void repeat_another(const std::vector<StepMetrics>& steps);
  /// Changes that are made again when their steps come: of steps that came after the last checkpoint.
  void repeat(const KernelRecord& changes);
  /// For the checkpoint: those that have not come.
  const KernelRecord& to_come() const { return to_come_; }
  /// What the last step of a resumed run took.
  void go_on_from(const std::vector<StepMetrics>& steps);

  /// Tuning goes on while one lives, where the run's options say so.
  class Scope {
   public:
    explicit Scope(RunTuning& tuning) : tuning_(tuning) { tuning.begin(); }
    ~Scope() { tuning_.session_.reset(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunTuning& tuning_;
  };

  /// Before a step is built: changes kernels, or goes on with tuning. `plan`: of the step before; `settle`
  /// waits for all steps so far. Throws Interrupted.
  void before_step(int64_t step, const std::shared_ptr<const Plan>& plan, Reporter& reporter,
                   const std::function<void()>& settle);
  /// The kernels of a step that differ from those of the step before. Throws Error(value) where a run that
  /// repeats another has others than that.
  StepKernels news(int64_t step, const std::shared_ptr<const Plan>& plan);
  /// Where other kernels will run from now on, as with another number of threads: what was found out so far
  /// says nothing about them.
  void begin_anew();
  TuningState state() const;

 private:
  void begin();
  void restore(const StepKernels& kernels) const;

  Tuning tuning_;
  std::string repeated_;  // the run whose kernels are repeated; "" for none
  Device device_;
  KernelRecord to_come_;
  StepKernels in_force_;              // as the metrics have it
  StepKernels expected_;              // of a run that repeats another, from the present step on
  std::shared_ptr<const Plan> plan_;  // of the last step
  size_t reported_timed_ = 0;
  TuningState earlier_;  // of sessions before the present one
  std::optional<TuningSession> session_;
};

}  // namespace athanor
