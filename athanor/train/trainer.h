// Trainer: a whole run, from its options to the files it leaves.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/line_log.h"
#include "athanor/compile/plan.h"
#include "athanor/data/dataloader.h"
#include "athanor/kernels/waiting.h"
#include "athanor/nn/module.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/train/checkpoint.h"
#include "athanor/train/loss_svg.h"
#include "athanor/train/reporter.h"
#include "athanor/train/run_tuning.h"
#include "athanor/train/step_mark.h"
#include "athanor/train/training_step.h"

namespace athanor {

enum class RunEnd { finished, interrupted };

/// Trains a model by its TrainConfig and keeps the run's folder: config.json, metrics.jsonl,
/// checkpoint.safetensors, loss.svg, and at the end summary.json and plan.json.
///
/// Numbers depend on the options that resume_config() protects, on the data and on the number of threads: not
/// on workers, nor on whether, when and how often the run was killed and resumed. Which kernels run is part
/// of that: they are chosen by timing when a plan is first made, and stored with the run.
///
/// Batches are whole: what does not fill one is left out of the epoch (shuffled, so other pictures each
/// time).
class Trainer {
 public:
  /// Opens everything. A new run starts in `folder`, which is made; with `resume`, the run there goes on from
  /// its last checkpoint, or from the start when it did not get that far; `config` is then what
  /// resume_config() gives. Seeds default_generator() and sets the number of CPU threads of the process.
  ///
  /// Throws Error(usage) for options that are wrong, and what opening the data, the device or the checkpoint
  /// throws; then a new run has left no folder.
  Trainer(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter);

  /// Trains to the end, or until a signal or request_interrupt() stops it (see interrupt.h): then the step
  /// under way is finished, or given up where it may take long (kernels are chosen or compiled, updates have
  /// not begun), and the run saved as it is after the last whole step.
  ///
  /// Throws Error(numeric) naming the step when the loss is no longer a number, Error(io) when a file cannot
  /// be written; the last checkpoint stays.
  RunEnd run();

  /// Whether there is nothing left to do.
  bool finished() const;
  int64_t steps() const { return state_.step; }
  /// Whether the last checkpoint holds all steps that were made.
  bool saved() const { return whole_ && state_.step == saved_step_; }
  const std::vector<EpochMetrics>& epochs() const { return state_.epochs; }

 private:
  enum class Svg { if_old, now };

  ScopedWaitListener tell_reporter();
  uint64_t checkpoint_bytes() const;
  RunFacts facts(const std::string& device_why) const;
  /// A new model and its optimizer, on the device.
  void make_model();
  void go_on_from(Checkpoint checkpoint);
  StepOptions step_options();
  void check_same_data(const ExampleSpec& stored) const;
  bool at_end() const;
  bool epoch_is_over() const;
  int64_t last_step() const;
  struct Uploaded {
    Tensor inputs, labels;  // in the device's memory
  };
  Uploaded upload();
  /// Where the loader would be without the batch that was taken ahead.
  LoaderState position() const;
  /// A step that the device was given. Its loss is read later, so that the device has the next step before it
  /// is done with this one.
  struct StepInFlight {
    StepMetrics metrics;  // but for the results
    PendingStep results;
    int64_t pictures = 0;
    bool compiled = false;  // a plan
    double rebuild_seconds = 0;
  };
  /// Steps that were made, those in flight among them.
  int64_t launched() const { return state_.step + static_cast<int64_t>(in_flight_.size()); }
  void step();
  /// Builds the step and has it computed; given up when interrupted, and then all is as before.
  PendingStep launch(const Uploaded& batch, double lr);
  /// Reads the results of steps, oldest first, until at most so many are in flight.
  void settle(size_t left_in_flight);
  void settle_oldest();
  void run_to_end();
  void finish_epoch();
  MetricsSum test();
  bool checkpoint_is_due() const;
  void save(Svg svg);
  std::optional<TestPoint> last_test() const;
  void write_svg() const;
  void finish();
  std::shared_ptr<const Plan> plan_of_a_step(int64_t batch);
  /// Adds how much memory a step needs according to its plan, and the largest batch that would fit.
  [[noreturn]] void stop_without_memory(const Error& error);
  [[noreturn]] void stop_at_nan(const StepMetrics& metrics);

  TrainConfig config_;
  RunFolder folder_;
  std::optional<os::Lock> lock_;
  Reporter& reporter_;
  Device device_;
  std::string device_why_, precision_note_;
  std::shared_ptr<const Dataset> train_, test_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;  // for f16
  std::optional<StepMark> mark_;             // of the step under way
  bool whole_ = true;                        // false: a step was given up and could not be taken back
  optim::Schedule schedule_;
  std::optional<DataLoader> loader_;
  std::optional<Uploaded> ahead_;  // the next step's batch, when it went up while the last step ran
  LoaderState ahead_from_;
  std::deque<StepInFlight> in_flight_;  // oldest first
  Clock::time_point settled_at_;        // when the step before the oldest was read
  std::optional<LineLog> log_;
  RunState state_;
  std::map<std::string, std::string> kernels_;  // the tuner's choices, of this process and earlier ones
  std::optional<RunTuning> tuning_;
  std::vector<StepMetrics> metrics_;  // of the whole run
  std::shared_ptr<const Plan> plan_;  // of the last step
  std::optional<MetricsSum> tested_;  // after the last step, when it was
  std::vector<double> step_seconds_, rebuild_seconds_;
  double first_steps_seconds_ = 0;  // of steps that compiled a plan
  int64_t saved_step_ = 0;
  Clock::time_point saved_at_, drawn_at_;
};

/// The options of the run in a folder. Throws Error(io|format).
TrainConfig stored_config(const RunFolder& folder);

}  // namespace athanor
