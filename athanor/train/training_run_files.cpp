// What a run leaves: checkpoints, curves, the summary.
#include <iterator>
#include <utility>

#include "athanor/base/threads.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/memory/storage.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/examples_record.h"
#include "athanor/train/training_run.h"

namespace athanor {

bool TrainingRun::checkpoint_is_due() const {
  const CheckpointInterval& every = config_.checkpoint_every;
  return every.steps > 0 ? launched() - saved_step_ >= every.steps
                         : seconds_since(saved_at_) >= every.seconds;
}

Checkpoint TrainingRun::checkpoint() const {
  return {.config = config_,
          .device = to_string(device_.device),
          .threads = cpu_threads(),
          .most_threads = threads_->most(),
          .data = task_->spec(),
          .state = state_,
          .kernels = kernels_,
          .kernels_to_come = tuning_->to_come(),
          .threads_to_come = threads_->to_come(),
          .model = {},
          .optimizer = {},
          .tokenizer = task_->tokenizer()};
}

void TrainingRun::save(RunRecord::Draw when) {
  if (callbacks.on_checkpoint) callbacks.on_checkpoint(state_.step, folder_.checkpoint());
  state_.metrics_bytes = record_->sync();
  state_.loader = batches_->position();
  state_.random = default_generator().state();
  for (const auto& [problem, kernel] : TuningCache::instance().used()) kernels_[problem] = kernel;
  Checkpoint last = checkpoint();
  learner_->store(last);
  writer_.write(folder_.checkpoint(), std::move(last));
  saved_step_ = state_.step;
  saved_at_ = Clock::now();
  draw(when);
}

// For prediction only: without an optimizer, training cannot be resumed from it.
void TrainingRun::save_best() {
  Checkpoint best = checkpoint();
  best.model = learner_->best_values();
  writer_.write(folder_.best(), std::move(best));
}

// A run that --max-steps ends is tested in the middle of an epoch.
std::optional<TestPoint> TrainingRun::last_test() const {
  if (!tested_ || (!state_.epochs.empty() && state_.epochs.back().step == state_.step)) return std::nullopt;
  return TestPoint{state_.step, tested_->mean_loss(), tested_->accuracy()};
}

void TrainingRun::draw(RunRecord::Draw when) { record_->draw(when, state_.epochs, last_test(), last_step()); }

void TrainingRun::finish() {
  const bool inside_epoch = state_.epoch_sum.count > 0;
  if (!plan_) plan_ = learner_->plan_of_a_step(config_.batch_size);  // killed between last step and summary
  const Unit unit = scoring_->unit();
  Summary summary{
      .config = config_,
      .device = to_string(device_.device),
      .trust = trust_note(device_.device),
      .threads = cpu_threads(),
      .steps = state_.step,
      .parameters = learner_->model().parameter_count(),
      .train_loss = inside_epoch || state_.epochs.empty() ? state_.epoch_sum.mean_loss()
                                                          : state_.epochs.back().train_loss,
      .test_loss = tested_->mean_loss(),
      .test_accuracy = tested_->accuracy(),
      .measures = measures_of(*tested_),
      .quality = scoring_->quality(),
      .more = tested_->measures,
      .classes = tested_->classes,
      .class_names = task_->spec().class_names,
      .unit = unit,
      .epochs = state_.epochs,
      .best_epoch = state_.epochs.empty() ? 0 : std::ssize(state_.epochs) - epochs_since_best(),
      .stopped_early = out_of_patience() && state_.step < last_step(),
      .skipped_steps = state_.skipped_steps,
      .train_seconds = state_.train_seconds,
      .loader_wait_seconds = batches_->waited_seconds(),
      .broken = task_->broken(),
      .first_tuning_seconds = evaluation_stats().timing_seconds - before_.timing_seconds,
      .tuning_seconds = tuning_->state().seconds,
      .tuned_first = evaluation_stats().problems_timed - before_.problems_timed,
      .tuned = static_cast<int64_t>(tuning_->state().timed),
      .left_to_be_tuned = static_cast<int64_t>(tuning_->state().problems - tuning_->state().timed),
      .peak_memory_bytes = memory_use(device_.device).peak,
      .planned_memory_bytes = planned_memory(*plan_, config_.batch_size),
      .kernels_total = static_cast<int64_t>(plan_->steps.size()),
      .kernels_off_device = plan_->kernels_off_device(),
      .plans_compiled = evaluation_stats().plans_compiled - before_.plans_compiled,
      .compile_seconds = evaluation_stats().compile_seconds - before_.compile_seconds,
      .examination_seconds = examination_seconds(device_.device),
      .compilations = compilations()};
  if (!record_->metrics().empty()) summary.loss_scale = record_->metrics().back().loss_scale;
  record_->fill_in_times(summary, config_.batch_size * unit.in_example);
  record_->write_confusion(*tested_, state_.step);
  if (const auto last = last_test(); tensorboard_ && last)
    tensorboard_->add(EpochMetrics{.step = last->step,
                                   .test_loss = last->loss,
                                   .test_accuracy = last->accuracy,
                                   .quality = scoring_->quality().field},
                      measures_of(*tested_));
  write_examples(folder_.examples(), *tested_, task_->spec());
  record_->write_plan(*plan_, kernels_);
  record_->write_summary(summary);
  reporter_.ended(summary);
}

}  // namespace athanor
