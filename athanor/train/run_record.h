// The files of a run that people and programs read: metrics.jsonl, loss.svg, plan.json, summary.json.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/line_log.h"
#include "athanor/compile/plan.h"
#include "athanor/train/class_counts.h"
#include "athanor/train/loss_svg.h"
#include "athanor/train/metrics.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/summary.h"

namespace athanor {

class RunRecord {
 public:
  /// Continues after `steps` steps, whose metrics are the first `metrics_bytes` of the file; the rest of the
  /// file is cut off. Throws Error(format) if the file has another number of steps.
  RunRecord(const TrainConfig& config, RunFolder folder, int64_t steps, uint64_t metrics_bytes,
            std::string tested, Quality quality, std::vector<std::string> class_names);

  /// The metrics of the whole run.
  const std::vector<StepMetrics>& metrics() const { return metrics_; }
  /// Appends a step to metrics.jsonl. `compiled`: the step compiled a plan, so its time is not typical.
  void add(const StepMetrics& metrics, double seconds, double rebuild_seconds, bool compiled);
  /// Waits until all lines are on the disk, and returns their size in bytes.
  uint64_t sync();

  /// Draws loss.svg. Drawing reads all steps so far, so `if_old` draws only now and then.
  enum class Draw { if_old, now };
  void draw(Draw when, const std::vector<EpochMetrics>& epochs, const std::optional<TestPoint>& last_test,
            int64_t steps_in_all);

  /// Fills in the times of the steps that this process made. `counted`: images or tokens in each.
  void fill_in_times(Summary& summary, int64_t counted) const;
  void write_plan(const Plan& plan, const std::map<std::string, std::string>& kernels) const;
  /// confusion.json and confusion.svg of a test after `steps` steps, if it has classes.
  void write_confusion(const TestResult& test, int64_t steps) const;
  void write_summary(const Summary& summary) const;

 private:
  TrainConfig config_;
  RunFolder folder_;
  std::string tested_;
  Quality quality_;
  std::vector<std::string> class_names_;
  LineLog log_;
  std::vector<StepMetrics> metrics_;
  std::vector<double> step_seconds_, rebuild_seconds_;  // without steps that compiled a plan
  double first_steps_seconds_ = 0;                      // of steps that compiled a plan
  Clock::time_point drawn_at_ = Clock::now();
};

}  // namespace athanor
