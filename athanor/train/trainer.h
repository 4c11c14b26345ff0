// Trainer: a whole run, from its options to the files it leaves.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "athanor/train/checkpoint.h"
#include "athanor/train/config.h"
#include "athanor/train/metrics.h"
#include "athanor/train/reporter.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/task.h"

namespace athanor {

class TrainingRun;

enum class RunEnd { finished, interrupted, stopped };

/// Functions of one's own that a run calls, each from the training thread, which waits for them. Leave out
/// those that are of no use.
struct TrainerCallbacks {
  std::function<void(const StepMetrics&)> on_step;
  std::function<void(const EpochMetrics&)> on_epoch;
  /// After each test: at the end of an epoch, and of the run. `step`: how many were made.
  std::function<void(int64_t step, const MetricsSum&)> on_evaluation;
  /// Before a checkpoint of so many steps is written.
  std::function<void(int64_t step, const std::filesystem::path&)> on_checkpoint;
};

/// Trains a model by its TrainConfig and keeps the run's folder: config.json, metrics.jsonl,
/// checkpoint.safetensors, loss.svg, and at the end summary.json and plan.json.
///
///     TrainConfig config;
///     config.model = "resnet18";
///     Reporter nobody;
///     Trainer trainer(config, {"runs/mine"}, false, nobody);
///     trainer.callbacks().on_step = [&](const StepMetrics& step) {
///       if (step.loss < 0.1) trainer.request_stop();
///     };
///     trainer.run();
///
/// Numbers depend on the options that resume_config() protects, on the data and on the number of threads: not
/// on workers, nor on whether, when and how often the run was killed and resumed. Which kernels run is part
/// of that: they are chosen by timing, at recorded steps. So is the number of threads where the options leave
/// it open: see RunThreads.
class Trainer {
 public:
  /// Opens everything. A new run starts in `folder`, which is made; with `resume`, the run there goes on from
  /// its last checkpoint, or from the start when it did not get that far; `config` is then what
  /// resume_config() gives. Seeds default_generator() and sets the number of CPU threads of the process.
  ///
  /// `task`: of one's own, with a model and data that `config` does not know; then `config.model` and
  /// `config.data` are only names. None: open_task(config).
  ///
  /// Throws Error(usage) for options that are wrong, and what opening the data, the device or the checkpoint
  /// throws; then a new run has left no folder.
  Trainer(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter,
          std::unique_ptr<const Task> task = nullptr);
  ~Trainer();

  /// Set them before run().
  TrainerCallbacks& callbacks();

  /// Trains to the end, or until a signal or request_interrupt() stops it (see interrupt.h): then the step
  /// under way is finished, or given up where it may take long (kernels are chosen or compiled, updates have
  /// not begun), and the run saved as it is after the last whole step. After request_stop() likewise.
  ///
  /// Throws Error(numeric) naming the step when the loss is no longer a number, Error(io) when a file cannot
  /// be written; the last checkpoint stays.
  RunEnd run();

  /// Lets run() end after the step under way, from any thread or callback; the run can be resumed.
  void request_stop();

  /// Whether there is nothing left to do.
  bool finished() const;
  int64_t steps() const;
  /// Whether the last checkpoint holds all steps that were made.
  bool saved() const;
  const std::vector<EpochMetrics>& epochs() const;
  /// The model as it is now, on the run's device.
  nn::Module& model();

 private:
  std::unique_ptr<TrainingRun> run_;
};

/// The options of the run in a folder. Throws Error(io|format).
TrainConfig stored_config(const RunFolder& folder);

}  // namespace athanor
