// Opening a run: device, data, model, files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/threads.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/memory/storage.h"
#include "athanor/train/config_file.h"
#include "athanor/train/training_run.h"

namespace athanor {

TrainingRun::TrainingRun(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter,
                         std::unique_ptr<const Task> task)
    : config_(config), folder_(std::move(folder)), reporter_(reporter), task_(std::move(task)) {
  if (!task_) {
    config_.validate();
    config_.data = from_any_folder(config_.data);
    config_.tokenizer = from_any_folder(config_.tokenizer);
    config_.init = from_any_folder(config_.init);
  }
  settle_tuning(config_);
  if (resume && std::filesystem::exists(folder_.path)) lock_ = folder_.take_lock();
  std::optional<Checkpoint> checkpoint;
  if (resume && std::filesystem::exists(folder_.checkpoint()))
    checkpoint = read_checkpoint(folder_.checkpoint());
  const ScopedWaitListener waits = tell_reporter();
  open_device(checkpoint);
  throw_if_interrupted();
  const int64_t whole_batch = config_.batch_size;
  if (!task_) task_ = open_task(config_);
  if (config_.batch_size < whole_batch)
    batch_note_ = fmt::format("the default of {} is more than the training data", whole_batch);
  scoring_ = task_->scoring();
  throw_if_interrupted();

  manual_seed(config_.seed);
  TrainConfig config_now = config_;
  if (checkpoint) config_now.init.clear();  // all values are in the checkpoint
  learner_.emplace(*task_, config_now, device_.device);
  batches_.emplace(task_->training_batches(), device_.device, config_.accumulate);
  schedule_ =
      optim::make_schedule(config_.schedule, {.lr = config_.learning_rate(),
                                              .total_steps = config_.epochs * batches_->batches_in_epoch(),
                                              .warm_up_steps = config_.warm_up});
  tuning_.emplace(config_, device_.device);
  if (checkpoint)
    go_on_from(std::move(*checkpoint));
  else if (!config_.choices.empty())
    repeat_another();
  throw_if_interrupted();

  folder_.check_space(learner_->bytes());
  folder_.create();
  if (!lock_) lock_ = folder_.take_lock();
  write_json(folder_.config(), to_json(config_));
  write_file_atomically(folder_.config_toml(), to_toml(config_));
  if (resume) {
    const std::vector<StepMetrics> lost = read_lost_steps(folder_.metrics(), state_.metrics_bytes);
    tuning_->repeat(record_in(lost));
    threads_->repeat(threads_in(lost));
  }
  record_.emplace(config_, folder_, state_.step, state_.metrics_bytes, scoring_->unit().many,
                  scoring_->quality(), task_->spec().class_names);
  tuning_->go_on_from(record_->metrics());
  threads_->go_on_from(record_->metrics());
  saved_at_ = Clock::now();
  saved_step_ = state_.step;
  reporter_.started(facts());
}

ScopedWaitListener TrainingRun::tell_reporter() {
  return ScopedWaitListener(
      [this](const std::string& what, const std::string& how_far) { reporter_.waiting(what, how_far); });
}

void TrainingRun::open_device(const std::optional<Checkpoint>& checkpoint) {
  set_cpu_threads(0);  // devices are compared with all threads, so that --threads changes no choice
  device_ = choose_run_device(config_.device, checkpoint ? checkpoint->device : "");
  precision_note_ = require_precision(device_.device, parse_precision(config_.precision));
  // The number of threads decides how sums are split, so a resumed run keeps it on any device.
  threads_.emplace(config_, device_.device, checkpoint ? checkpoint->threads : 0,
                   checkpoint ? checkpoint->most_threads : 0);
  reset_peak_memory(device_.device);
}

void TrainingRun::go_on_from(Checkpoint checkpoint) {
  check_same_data(checkpoint.data);
  try {
    learner_->load(checkpoint);
    batches_->restore(checkpoint.state.loader);
  } catch (const Error& error) {
    throw Error(ErrorCode::format, fmt::format("the checkpoint does not fit the run: {}", error.problem()),
                folder_.checkpoint().string(), "Start a new run in another folder");
  }
  default_generator().restore(checkpoint.state.random);
  TuningCache::instance().restore(checkpoint.kernels);
  kernels_ = std::move(checkpoint.kernels);
  tuning_->repeat(checkpoint.kernels_to_come);
  threads_->repeat(checkpoint.threads_to_come);
  state_ = std::move(checkpoint.state);
}

void TrainingRun::repeat_another() {
  const std::vector<StepMetrics> steps = metrics_of(config_.choices);
  if (config_.threads == 0) threads_->repeat_another(threads_in(steps));
  tuning_->repeat_another(steps);  // kernels are looked up by the number of threads
}

void TrainingRun::check_same_data(const ExampleSpec& stored) const {
  const ExampleSpec& here = task_->spec();
  if (stored.input == here.input && stored.classes == here.classes &&
      stored.fingerprint == here.fingerprint && stored.targets == here.targets &&
      stored.normalization.mean == here.normalization.mean &&
      stored.normalization.stddev == here.normalization.stddev)
    return;
  throw Error(ErrorCode::value,
              fmt::format("the {} in '{}' are not those that the run was trained on", scoring_->unit().rated,
                          config_.data),
              folder_.path.string(), "Restore the data, or start a new run");
}

// There is no learner if the memory was too small for one.
RunFacts TrainingRun::facts() const {
  return {.config = config_,
          .folder = folder_,
          .device = info_of(device_.device),
          .device_why = device_.why,
          .precision_note = precision_note_,
          .batch_note = batch_note_,
          .trust = trust_note(device_.device),
          .threads = cpu_threads(),
          .parameters = learner_ ? learner_->model().parameter_count() : 0,
          .trained = learner_ ? learner_->trained_count() : 0,
          .init_note = learner_ ? learner_->init_note() : "",
          .adapter_note = learner_ ? learner_->adapter_note() : "",
          .offload_note = learner_ ? learner_->offload_note() : "",
          .data = task_->describe(),
          .test_count = task_->test_count(),
          .scoring = scoring_,
          .steps_before = state_.step,
          .skipped_before = state_.skipped_steps,
          .steps_in_epoch = batches_->batches_in_epoch(),
          .steps_in_all = last_step()};
}

int64_t TrainingRun::last_step() const {
  const int64_t steps = config_.epochs * batches_->batches_in_epoch();
  return config_.max_steps > 0 ? std::min(config_.max_steps, steps) : steps;
}

}  // namespace athanor
