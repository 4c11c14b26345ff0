// What Trainer does; used only by it.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/kernels/waiting.h"
#include "athanor/optim/schedule.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/batches_ahead.h"
#include "athanor/train/checkpoint_writer.h"
#include "athanor/train/learner.h"
#include "athanor/train/run_device.h"
#include "athanor/train/run_record.h"
#include "athanor/train/run_status.h"
#include "athanor/train/run_threads.h"
#include "athanor/train/run_tuning.h"
#include "athanor/train/tensorboard_log.h"
#include "athanor/train/trainer.h"

namespace athanor {

/// A step that was given to the device. Its loss is read later, so that the device has the next step before
/// it has finished this one.
struct StepInFlight {
  StepMetrics metrics;  // without the results
  PendingStep results;
  int64_t counted = 0;
  bool compiled = false;  // it compiled a plan
  double rebuild_seconds = 0;
};

class TrainingRun {
 public:
  /// As Trainer's constructor.
  TrainingRun(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter,
              std::unique_ptr<const Task> task);

  RunEnd run();
  bool finished() const {
    return at_end() && !batches_->epoch_is_over() && std::filesystem::exists(folder_.summary());
  }
  bool saved() const { return learner_->whole() && state_.step == saved_step_; }

  TrainerCallbacks callbacks;
  std::atomic<bool> stop_requested = false;
  const RunState& state() const { return state_; }
  nn::Module& model() { return learner_->model(); }

 private:
  ScopedWaitListener tell_reporter();
  RunFacts facts() const;
  void open_device(const std::optional<Checkpoint>& checkpoint);
  void go_on_from(Checkpoint checkpoint);
  /// Repeats the run of TrainConfig::choices.
  void repeat_another();
  void check_same_data(const ExampleSpec& stored) const;

  int64_t last_step() const;
  /// Steps that were made, those in flight among them.
  int64_t launched() const { return state_.step + static_cast<int64_t>(in_flight_.size()); }
  /// How many epochs ago the best test was; 0 before the first.
  int64_t epochs_since_best() const;
  bool out_of_patience() const;
  bool at_end() const { return launched() >= last_step() || out_of_patience(); }

  void run_to_end();
  void stop_if_asked() const;
  void step();
  void check_last_part();
  /// The bytes that a step takes with this plan, and with batches that wait.
  int64_t planned_memory(const Plan& plan, int64_t batch_size) const;
  /// Reads the results of steps, oldest first, until at most this many are in flight.
  void settle(size_t left_in_flight);
  void settle_oldest();
  void save_before_test();
  TestResult test();
  std::vector<Measure> measures_of(const TestResult& test) const;
  void finish_epoch();
  bool checkpoint_is_due() const;
  Checkpoint checkpoint() const;
  void save(RunRecord::Draw draw);
  void save_best();
  /// Lets a language model write, if --sample asks for it.
  void sample();
  std::optional<TestPoint> last_test() const;
  void draw(RunRecord::Draw when);
  void finish();
  /// Writes state.json.
  void write_status(RunStateName state, const std::string& error = {});
  [[noreturn]] void stop_without_memory(const Error& error);
  [[noreturn]] void stop_at_nan(const StepMetrics& metrics);

  const EvaluationStats before_ = evaluation_stats();  // what this thread did before the run
  TrainConfig config_;
  RunFolder folder_;
  std::optional<os::Lock> lock_;
  Reporter& reporter_;
  RunDevice device_;
  std::string precision_note_, batch_note_;
  std::unique_ptr<const Task> task_;
  std::shared_ptr<const Scoring> scoring_;
  std::optional<Learner> learner_;
  optim::Schedule schedule_;
  std::optional<BatchesAhead> batches_;
  std::deque<StepInFlight> in_flight_;  // oldest first
  Clock::time_point settled_at_;        // when the step before the oldest was read
  std::optional<RunRecord> record_;
  RunState state_;
  std::map<std::string, std::string> kernels_;  // the tuner's choices, of this process and earlier ones
  std::optional<RunThreads> threads_;
  std::optional<RunTuning> tuning_;
  std::shared_ptr<const Plan> plan_;  // of the last step
  std::optional<TestResult> tested_;  // the test after the last step, if there was one
  CheckpointWriter writer_;
  std::optional<TensorBoardLog> tensorboard_;
  int64_t saved_step_ = 0, sampled_step_ = 0;
  int64_t started_ = 0;  // seconds since 1970
  Clock::time_point saved_at_;
};

}  // namespace athanor
