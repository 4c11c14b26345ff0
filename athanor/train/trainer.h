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

/// Your functions, which a run calls from the training thread. All are optional.
struct TrainerCallbacks {
  std::function<void(const StepMetrics&)> on_step;
  std::function<void(const EpochMetrics&)> on_epoch;
  /// After each test: at the end of an epoch, and of the run. `step`: steps made so far.
  std::function<void(int64_t step, const MetricsSum&)> on_evaluation;
  /// Before a checkpoint at this step is written.
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
/// Numbers depend on the options that resume_config() protects, on the data, on the kernels, and on the
/// number of threads. They do not depend on workers, or on whether, when and how often the run was killed and
/// resumed. Kernels are chosen by timing, at recorded steps. The number of threads changes at recorded steps
/// too, unless the options set it: see RunThreads.
class Trainer {
 public:
  /// Opens everything. A new run starts in `folder`, which is created. With `resume`, the run there continues
  /// from its last checkpoint, or from the start if it has none; `config` must then come from
  /// resume_config(). Seeds default_generator() and sets the number of CPU threads of the process.
  ///
  /// `task`: your own, with its own model and data; `config.model` and `config.data` are then only names.
  /// None: open_task(config).
  ///
  /// Throws Error(usage) for wrong options, and what opening the data, the device or the checkpoint throws. A
  /// new run then leaves no folder.
  Trainer(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter,
          std::unique_ptr<const Task> task = nullptr);
  ~Trainer();

  /// Set them before run().
  TrainerCallbacks& callbacks();

  /// Trains to the end, or until a signal, request_interrupt() (see interrupt.h) or request_stop() stops it.
  /// The step under way is then finished, or given up if it may take long (kernels are being chosen or
  /// compiled, and updates have not begun). The run is saved as it is after the last whole step.
  ///
  /// Throws Error(numeric) naming the step when the loss is NaN or infinite, Error(io) when a file cannot be
  /// written. The last checkpoint stays.
  RunEnd run();

  /// Makes run() end after the step under way. May be called from any thread or callback. The run can be
  /// resumed.
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
