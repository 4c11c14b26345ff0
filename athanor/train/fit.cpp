#include "athanor/train/fit.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/compile/low_limit.h"
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

int64_t StepPlanner::least_bytes(FitCase of) {
  of.again = true;
  try {
    return bytes(*plan(of, 1), of);
  } catch (const LowMemoryLimit& error) {
    return error.least();
  }
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

std::optional<FitPoint> largest_fast_batch(const std::vector<FitPoint>& points, int64_t parts,
                                           Precision precision) {
  std::vector<FitPoint> kept;
  double fastest = 0;
  for (const FitPoint& point : points) {
    const FitCase& of = point.of;
    if (of.parts != parts || of.precision != precision || of.again ||
        !std::has_single_bit(static_cast<uint64_t>(of.batch_size / parts)))
      continue;
    kept.push_back(point);
    fastest = std::max(fastest, point.per_second());
  }
  std::erase_if(kept, [&](const FitPoint& p) { return p.per_second() < (1 - alike_in_speed) * fastest; });
  const auto largest = std::ranges::max_element(kept, {}, [](const FitPoint& p) { return p.of.batch_size; });
  return largest == kept.end() ? std::nullopt : std::optional(*largest);
}

std::optional<FitPoint> fastest_way(const std::vector<FitPoint>& points, int64_t batch_size) {
  std::optional<FitPoint> best;
  for (const FitPoint& point : points) {
    if (point.of.batch_size != batch_size || (best && point.of.precision != best->of.precision)) continue;
    if (!best || point.seconds < best->seconds) best = point;
  }
  return best;
}

std::optional<FitPoint> faster_precision(const FitPoint& advised, const std::vector<FitPoint>& points) {
  std::vector<FitPoint> others = points;
  std::erase_if(others, [&](const FitPoint& p) { return p.of.precision == advised.of.precision; });
  const auto best = fastest_way(others, advised.of.batch_size);
  return best && best->seconds < (1 - alike_in_speed) * advised.seconds ? best : std::nullopt;
}

FitSpeeds speeds_around(const FitPoint& advised, const std::vector<FitPoint>& points) {
  const double least = (1 - alike_in_speed) * advised.per_second();
  int64_t slower_below = 0;  // the largest batch below the advised one that is slower
  bool larger = false, larger_fast = false;
  FitSpeeds speeds{.alike_from = advised.of.batch_size};
  const auto is_alike = [&](const FitPoint& point) {
    FitCase of = point.of;
    of.batch_size = advised.of.batch_size;
    return of == advised.of;
  };
  for (const FitPoint& point : points) {
    if (!is_alike(point)) continue;
    const bool slower = point.per_second() < least;
    if (point.of.batch_size > advised.of.batch_size) {
      larger = true;
      larger_fast |= !slower;
    } else if (slower) {
      slower_below = std::max(slower_below, point.of.batch_size);
    }
  }
  for (const FitPoint& point : points)
    if (is_alike(point) && point.of.batch_size > slower_below)
      speeds.alike_from = std::min(speeds.alike_from, point.of.batch_size);
  speeds.larger_slower = larger && !larger_fast;
  return speeds;
}

}  // namespace athanor
