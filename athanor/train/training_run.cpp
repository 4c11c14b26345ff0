// The loop of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/trace.h"
#include "athanor/runtime/eval_in_portions.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/examples_record.h"
#include "athanor/train/memory_advice.h"
#include "athanor/train/memory_scope.h"
#include "athanor/train/training_run.h"

namespace athanor {
namespace {

// One step runs while the next is built. A second one waits, so that the device has work while this thread
// writes and tests.
constexpr size_t most_in_flight = 2;

struct StopRequested {};

/// Sets the options of this thread's compiler while the run lasts.
class CompileScope {
 public:
  explicit CompileScope(const TrainConfig& config) : before_(compile_options()) {
    compile_options().deterministic |= config.deterministic;
    compile_options().tuning = parse_tuning(config.tune);
    compile_options().check_nan |= config.check_nan;
  }
  ~CompileScope() { compile_options() = before_; }
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  CompileOptions before_;
};

}  // namespace

RunEnd TrainingRun::run() {
  const std::optional<os::Lock> lock = std::move(lock_);  // until the work ends, in whatever way
  const InterruptScope interrupts;
  const CompileScope options(config_);
  const ScopedWaitListener waits = tell_reporter();
  const RunTuning::Scope tuning(*tuning_);
  const CheckpointWriter::Scope written(writer_);
  std::error_code ignored;
  std::filesystem::remove(folder_.summary(), ignored);  // of an earlier end, outdated now
  RunEnd end = RunEnd::finished;
  started_ = std::time(nullptr);
  write_status(RunStateName::running);
  if (config_.tensorboard) tensorboard_.emplace(folder_);
  try {
    run_to_end();
    write_status(RunStateName::finished);
    return end;
  } catch (const Interrupted&) {
    end = RunEnd::interrupted;
  } catch (const StopRequested&) {
    end = RunEnd::stopped;
  } catch (const Error& error) {
    try {
      write_status(RunStateName::failed, error.what());
    } catch (const Error&) {
      // The first error says more.
    }
    throw;
  }
  const FinishScope finishing;  // the rest is short, and must not be interrupted
  settle(0);
  if (learner_->whole() && state_.step != saved_step_) save(RunRecord::Draw::now);
  writer_.wait();
  write_status(RunStateName::stopped);
  return end;
}

void TrainingRun::write_status(RunStateName state, const std::string& error) {
  const RunFacts known = facts();
  RunStatus status{.state = state,
                   .error = error,
                   .version = ATHANOR_VERSION,
                   .device = to_string(known.device.device),
                   .device_name = known.device.name,
                   .trust = known.trust,
                   .data = known.data,
                   .quality = scoring_->quality().field,
                   .threads = known.threads,
                   .parameters = known.parameters,
                   .started = started_,
                   .ended = state == RunStateName::running ? 0 : static_cast<int64_t>(std::time(nullptr)),
                   .steps = state_.step,
                   .steps_in_all = known.steps_in_all,
                   .train_seconds = state_.train_seconds,
                   .epochs = state_.epochs,
                   .best_epoch = 0,
                   .best = {}};
  double best_score = 0;
  const auto is_best = [&](double loss, double accuracy, const TestMeasures& more) {
    status.best = scoring_->best(loss, accuracy, more);
    status.best_loss = loss, status.best_accuracy = accuracy;
    best_score = scoring_->score(loss, accuracy, more);
  };
  if (!state_.epochs.empty()) {
    status.best_epoch = std::ssize(state_.epochs) - epochs_since_best();
    const EpochMetrics& best = state_.epochs[static_cast<size_t>(status.best_epoch - 1)];
    is_best(best.test_loss, best.test_accuracy, best.test_more);
  }
  // A run may be tested in the middle of an epoch.
  if (tested_) {
    const TestMeasures more = by_name(tested_->measures);
    if (status.best.empty() || scoring_->score(tested_->mean_loss(), tested_->accuracy(), more) > best_score)
      is_best(tested_->mean_loss(), tested_->accuracy(), more);
  }
  write_json(folder_.state(), to_json(status));
}

int64_t TrainingRun::epochs_since_best() const {
  const auto score = [&](const EpochMetrics& epoch) {
    return scoring_->score(epoch.test_loss, epoch.test_accuracy, epoch.test_more);
  };
  const auto best = std::ranges::max_element(state_.epochs, {}, score);  // the first of equal ones
  return best == state_.epochs.end() ? 0 : std::distance(best, state_.epochs.end()) - 1;
}

// An epoch that has begun is completed first. A run that is resumed with another patience may be inside one.
bool TrainingRun::out_of_patience() const {
  return config_.patience > 0 && epochs_since_best() >= config_.patience && state_.epoch_sum.count == 0;
}

void TrainingRun::stop_if_asked() const {
  throw_if_interrupted();
  if (stop_requested) throw StopRequested();
}

void TrainingRun::run_to_end() {
  // This computes the initial values, so that the first step's plan is the one of all steps.
  const MemoryScope memory(config_, *task_, device_.device);
  check_last_part();
  while (!at_end() || batches_->epoch_is_over()) {
    stop_if_asked();
    if (batches_->epoch_is_over()) {
      settle(0);
      save_before_test();
      finish_epoch();
    } else {
      try {
        step();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::out_of_memory) stop_without_memory(error);
        if (is_low_limit(error)) throw with_limit_advice(error, config_, false);
        throw;
      } catch (const std::bad_alloc&) {  // of the host
        stop_without_memory({ErrorCode::out_of_memory, "there is not enough memory"});
      }
      if (checkpoint_is_due()) {
        settle(0);
        save(RunRecord::Draw::if_old);
      }
    }
  }
  settle(0);
  if (!tested_) {
    save_before_test();
    tested_ = test();
  }
  save(RunRecord::Draw::now);
  if (sampled_step_ != state_.step) sample();  // a run may end in the middle of an epoch
  writer_.wait();
  finish();
}

// The last part of a batch needs the most memory, so its plan shows whether the limit is enough.
void TrainingRun::check_last_part() {
  if (config_.memory_limit == 0 || config_.accumulate == 1 || at_end()) return;
  try {
    learner_->plan_of_a_step(config_.batch_size);
  } catch (const Error& error) {
    if (is_low_limit(error)) throw with_limit_advice(error, config_, false);
    throw;
  }
}

void TrainingRun::step() {
  const TraceScope trace("step");
  const auto settle_all = [this] { settle(0); };
  if (threads_->before_step(launched() + 1, reporter_, settle_all)) {
    plan_ = nullptr;
    tuning_->begin_anew();
  }
  tuning_->before_step(launched() + 1, plan_, reporter_, settle_all);
  if (in_flight_.empty()) settled_at_ = Clock::now();
  const EvaluationStats before = evaluation_stats();
  StepInFlight made;
  made.metrics = {
      .step = launched() + 1, .epoch = batches_->position().epoch + 1, .lr = schedule_(launched())};
  Uploaded batch = batches_->take();
  made.counted = batch.counted;
  try {
    made.results = learner_->step(batch, made.metrics.lr);
  } catch (const Interrupted&) {
    batches_->give_back(std::move(batch));
    throw;
  }
  const EvaluationStats& after = evaluation_stats();
  plan_ = last_plan();
  tested_.reset();
  made.compiled = after.plans_compiled > before.plans_compiled;
  made.metrics.threads = threads_->news();
  made.metrics.kernels = tuning_->news(made.metrics.step, plan_);
  made.rebuild_seconds = after.rebuild_seconds - before.rebuild_seconds;
  in_flight_.push_back(std::move(made));
  if (in_flight_.back().compiled)
    reporter_.compiled({.compile_seconds = after.compile_seconds - before.compile_seconds,
                        .timing_seconds = after.timing_seconds - before.timing_seconds,
                        .problems_timed = after.problems_timed - before.problems_timed,
                        .kernels = static_cast<int64_t>(plan_->steps.size()),
                        .planned_memory_bytes = planned_memory(*plan_, config_.batch_size),
                        .libraries = plan_->libraries});
  // While the device computes, the next batch is uploaded.
  if (device_.device != Device{} && !at_end() && !batches_->epoch_is_over()) batches_->take_ahead();
  settle(most_in_flight);
}

int64_t TrainingRun::planned_memory(const Plan& plan, int64_t batch_size) const {
  return plan.planned_memory_bytes() +
         batches_beside_plan(*task_, batch_size, config_.accumulate, device_.device);
}

void TrainingRun::settle(size_t left_in_flight) {
  while (!in_flight_.empty() &&
         (in_flight_.size() > left_in_flight || in_flight_.front().results.correct.ready()))
    settle_oldest();
}

void TrainingRun::settle_oldest() {
  const StepInFlight oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  StepMetrics metrics = oldest.metrics;
  {
    const TraceScope wait("wait for the loss");
    metrics.loss = oldest.results.loss.item();
  }
  if (!std::isfinite(metrics.loss)) stop_at_nan(metrics);
  const double correct = oldest.results.correct.item();
  metrics.accuracy = correct / static_cast<double>(oldest.counted);
  metrics.quality = scoring_->quality().field;
  if (learner_->scales_loss()) {
    metrics.loss_scale = oldest.results.loss_scale.item();
    const auto skipped = static_cast<int64_t>(oldest.results.skipped.item());
    metrics.skipped = skipped > state_.skipped_steps;
    state_.skipped_steps = skipped;
  }

  const double seconds = seconds_since(settled_at_);
  record_->add(metrics, seconds, oldest.rebuild_seconds, oldest.compiled);
  settled_at_ = Clock::now();
  state_.epoch_sum.add(metrics.loss, correct, oldest.counted);
  ++state_.step;
  state_.train_seconds += seconds;
  if (tensorboard_) tensorboard_->add(metrics);
  reporter_.stepped(metrics, seconds);
  if (callbacks.on_step) callbacks.on_step(metrics);
}

void TrainingRun::stop_at_nan(const StepMetrics& metrics) {
  draw(RunRecord::Draw::now);
  const std::string again = fmt::format("athanor train --resume --check-nan --out {}", folder_.path.string());
  throw Error(
      ErrorCode::numeric,
      fmt::format("the loss of step {} is {}", metrics.step, std::isnan(metrics.loss) ? "NaN" : "infinite"),
      fmt::format("epoch {}, learning rate {:g}", metrics.epoch, metrics.lr),
      fmt::format("Try a smaller --lr, or --clip-norm 1. To see which operation gave it first: {}", again));
}

void TrainingRun::stop_without_memory(const Error& error) {
  const ScopedDisable untuned("tune");
  bool fresh = false;
  throw with_memory_advice(error, device_.device, config_.batch_size, [&](int64_t batch_size) {
    if (!std::exchange(fresh, true)) {
      // Drop the failed step and the model that it was to update: pending values would be planned too.
      batches_->drop();
      in_flight_.clear();
      learner_.reset();
      learner_.emplace(*task_, config_, device_.device);
      eval_in_portions();
    }
    return planned_memory(*learner_->plan_of_a_step(batch_size), batch_size);
  });
}

// A test may need more memory than there is. Its failure must not lose what was learned.
void TrainingRun::save_before_test() {
  if (state_.step != saved_step_) save(RunRecord::Draw::if_old);
}

TestResult TrainingRun::test() {
  TestResult sum;
  try {
    sum = learner_->test(config_.part_size(), [&](int64_t done) {
      reporter_.tested(done, task_->test_count());
      throw_if_interrupted();
      return true;
    });
  } catch (const Error& error) {
    if (is_low_limit(error)) throw with_limit_advice(error, config_, true);
    if (error.code() == ErrorCode::out_of_memory) throw with_test_advice(error, config_);
    throw;
  } catch (const std::bad_alloc&) {  // of the host
    throw with_test_advice({ErrorCode::out_of_memory, "there is not enough memory"}, config_);
  }
  if (callbacks.on_evaluation) callbacks.on_evaluation(state_.step, sum);
  return sum;
}

std::vector<Measure> TrainingRun::measures_of(const TestResult& test) const {
  std::vector<Measure> measures = scoring_->measures(test.mean_loss(), test.accuracy());
  measures.insert(measures.end(), test.measures.begin(), test.measures.end());
  return measures;
}

void TrainingRun::finish_epoch() {
  tested_ = test();
  EpochMetrics epoch{.epoch = batches_->position().epoch + 1,
                     .step = state_.step,
                     .train_loss = state_.epoch_sum.mean_loss(),
                     .train_accuracy = state_.epoch_sum.accuracy(),
                     .test_loss = tested_->mean_loss(),
                     .test_accuracy = tested_->accuracy(),
                     .test_more = by_name(tested_->measures),
                     .quality = scoring_->quality().field};
  state_.epochs.push_back(epoch);
  if (tensorboard_) tensorboard_->add(epoch, measures_of(*tested_));
  state_.epoch_sum = {};
  batches_->begin_epoch();
  save(RunRecord::Draw::now);
  record_->write_confusion(*tested_, state_.step);
  if (epochs_since_best() == 0) save_best();
  write_status(RunStateName::running);
  reporter_.epoch_ended(epoch);
  sample();
  if (callbacks.on_epoch) callbacks.on_epoch(epoch);
}

void TrainingRun::sample() {
  sampled_step_ = state_.step;
  if (config_.sample == 0) return;
  const std::string text = learner_->sample(config_.sample, config_.seed);
  if (text.empty()) return;
  add_sample(folder_.samples(), {state_.step, text});
  if (tensorboard_) tensorboard_->add_text(state_.step, text);
  reporter_.sampled(state_.step, text);
}

}  // namespace athanor
