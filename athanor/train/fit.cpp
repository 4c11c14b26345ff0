#include "athanor/train/fit.h"

#include <algorithm>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/compile/options.h"
#include "athanor/runtime/eval_in_portions.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/memory_scope.h"

namespace athanor {

static constexpr int64_t most_at_least = 8;   // the smallest batch is at most this many examples
static constexpr int64_t most_to_probe = 64;  // examples in the step that is run to measure its time

// Initial values are made on the host and copied, so that no kernel is compiled.
static Learner learner_with_values(const Task& task, const TrainConfig& config, Device device) {
  const OnlyPlansScope no_kernels;
  return {task, config, device};
}

StepPlanner::StepPlanner(std::unique_ptr<const Task> task, const TrainConfig& config, Device device)
    : device_(device), task_(std::move(task)), learner_(learner_with_values(*task_, config, device)) {
  const OnlyPlansScope no_kernels;
  eval_in_portions();
}

std::shared_ptr<const Plan> StepPlanner::plan(const FitCase& of, int64_t limit) {
  const PlanLimitScope scope(of.again ? limit : 0, beside(of));
  const OnlyPlansScope planning;
  learner_.set_precision(of.precision);
  auto plan = learner_.plan_of_a_step(of.batch_size, of.parts);
  clear_plan_cache();  // its forty plans would hold half a gigabyte of addresses for kernels
  return plan;
}

int64_t StepPlanner::beside(const FitCase& of) const {
  return batches_beside_plan(*task_, of.batch_size, of.parts, device_);
}

int64_t StepPlanner::bytes(const Plan& plan, const FitCase& of) const {
  return plan.planned_memory_bytes(device_) + beside(of);
}

double StepPlanner::run(const FitCase& of, int64_t limit) {
  const PlanLimitScope scope(of.again ? limit : 0, beside(of));
  learner_.set_precision(of.precision);
  const auto zeros = [&] { return batch_of_zeros(*task_, of.batch_size, of.parts, device_); };
  const Uploaded batch = zeros(), next = device_ == Device{} ? Uploaded{} : zeros();
  const auto start = Clock::now();
  learner_.step(batch, 0).loss.item();
  return seconds_since(start);
}

int64_t Fitter::least_batch() {
  for (int64_t batch = 1; least_batch_ == 0; batch *= 2) try {
      planner_.plan({.batch_size = batch}, 0);
      least_batch_ = batch;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::value || batch >= most_at_least) throw;
    }
  return least_batch_;
}

double Fitter::factor(Precision precision) {
  for (const auto& [known, factor] : factors_)
    if (known == precision) return factor;
  if (!options_.runs) return 1;
  // Kernels are less efficient in small batches; a large one takes long.
  constexpr double most_seconds = 0.05;  // predicted by rates; the real step takes a few times as long
  FitCase probe{.batch_size = std::max(least_batch(), std::min(most_to_probe, options_.most_examples)),
                .precision = precision};
  double predicted = 0;
  while (true) {
    const auto plan = planner_.plan(probe, 0);
    predicted = times_.seconds_by_rates(*plan);
    const bool small = predicted <= most_seconds && planner_.bytes(*plan, probe) <= limit_;
    if (small || probe.batch_size / 2 < least_batch()) break;
    probe.batch_size /= 2;
  }
  planner_.run(probe, 0);  // makes the plan and touches the memory
  double seconds = planner_.run(probe, 0);
  for (int i = 0; i < 2; ++i) seconds = std::min(seconds, planner_.run(probe, 0));
  factors_.emplace_back(precision, seconds / predicted);
  return factors_.back().second;
}

std::optional<FitPoint> Fitter::look(const FitCase& of) {
  try {
    const auto plan = planner_.plan(of, limit_);
    FitPoint point{.of = of, .bytes = planner_.bytes(*plan, of), .share = plan->recomputed.share};
    point.seconds = static_cast<double>(of.parts) * times_.seconds(*plan, factor(of.precision));
    if (point.bytes > limit_) return std::nullopt;
    return point;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) throw;
    return std::nullopt;
  }
}

std::optional<FitPoint> Fitter::in_parts(FitCase of) {
  for (of.parts *= 2; of.batch_size % of.parts == 0 && of.batch_size / of.parts >= least_batch();
       of.parts *= 2)
    if (auto point = look(of)) return point;
  return std::nullopt;
}

std::optional<FitPoint> Fitter::largest(FitCase of) {
  std::optional<FitPoint> best;
  int64_t too_large = of.parts * least_batch();
  while (too_large <= options_.most_examples) {
    of.batch_size = too_large;
    auto point = look(of);
    if (!point) break;
    best = point;
    too_large *= 2;
  }
  if (!best) return best;
  for (int64_t step = best->of.batch_size / 2; step >= std::max<int64_t>(1, too_large / 32); step /= 2) {
    of.batch_size = best->of.batch_size + step;
    if (of.batch_size % of.parts != 0 || of.batch_size >= too_large || of.batch_size > options_.most_examples)
      continue;
    if (auto point = look(of)) best = point;
  }
  return best;
}

}  // namespace athanor
