#include "athanor/train/lr_finder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "athanor/base/os/interrupt.h"
#include "athanor/base/threads.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/ops/random.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/batches_ahead.h"
#include "athanor/train/learner.h"
#include "athanor/train/memory_scope.h"
#include "athanor/train/run_device.h"
#include "athanor/train/task.h"

namespace athanor {
namespace {

constexpr int64_t steps_to_decade = 20;
constexpr std::ptrdiff_t reach = 6;  // steps on each side that are smoothed over
constexpr double too_large = 4;      // times the least loss
constexpr double margin = 0.1;       // of the rate at which the loss grows
constexpr double growth = 0.1;       // of the fall before: a rise by more is not noise
constexpr double least_fall = 0.02;  // of the first loss, or nothing is suggested

/// While it lives, kernels are not timed: in a sweep, which is short, timing does not pay off.
class UntimedScope {
 public:
  explicit UntimedScope(const TrainConfig& config) : before_(compile_options()) {
    compile_options().deterministic |= config.deterministic;
    compile_options().tuning = Tuning::off;
  }
  ~UntimedScope() { compile_options() = before_; }
  UntimedScope(const UntimedScope&) = delete;
  UntimedScope& operator=(const UntimedScope&) = delete;

 private:
  CompileOptions before_;
};

/// The mean over as many points on each side, so that the curve is not shifted.
double smoothed_at(const std::vector<LrPoint>& points, size_t at) {
  const auto i = static_cast<std::ptrdiff_t>(at), last = std::ssize(points) - 1;
  const std::ptrdiff_t side = std::min({reach, i, last - i});
  double sum = 0;
  for (std::ptrdiff_t j = i - side; j <= i + side; ++j) sum += points[static_cast<size_t>(j)].loss;
  return sum / static_cast<double>(2 * side + 1);
}

}  // namespace

void judge(LrSweep& sweep) {
  auto& points = sweep.points;
  for (size_t i = 0; i < points.size(); ++i) points[i].smooth = smoothed_at(points, i);
  sweep.steepest = sweep.grows = sweep.suggested = std::nullopt;
  if (points.empty()) return;
  const auto lowest =
      static_cast<size_t>(std::ranges::min_element(points, {}, &LrPoint::smooth) - points.begin());
  if (points[lowest].smooth > (1 - least_fall) * points.front().smooth) return;
  const double risen = points[lowest].smooth + growth * (points.front().smooth - points[lowest].smooth);
  for (size_t i = lowest + 1; i < points.size() && !sweep.grows; ++i)
    if (points[i].smooth > risen) sweep.grows = points[i].lr;
  // The slope over the steps around a point, because that of one step is mostly noise.
  double steepest = 0;
  for (size_t i = reach; i + reach <= lowest; ++i) {
    const double slope = points[i + reach].smooth - points[i - reach].smooth;
    if (slope < steepest) steepest = slope, sweep.steepest = points[i].lr;
  }
  // If nothing diverged, larger rates than the steepest are not known to be safe.
  if (sweep.steepest) sweep.suggested = sweep.grows ? margin * *sweep.grows : *sweep.steepest;
}

LrSweep sweep_learning_rates(TrainConfig config, const std::function<void(int64_t, int64_t)>& on_step) {
  set_cpu_threads(0);
  const RunDevice chosen = choose_run_device(config.device, "");
  std::string precision_note = require_precision(chosen.device, parse_precision(config.precision));
  set_cpu_threads(static_cast<int>(config.threads));
  const UntimedScope options(config);
  const std::unique_ptr<const Task> task = open_task(config);
  manual_seed(config.seed);
  Learner learner(*task, config, chosen.device);
  BatchesAhead batches(task->training_batches(), chosen.device, config.accumulate);
  const MemoryScope memory(config, *task, chosen.device);
  const double low = config.optimizer == "sgd" ? 1e-6 : 1e-7;
  const int64_t steps = 7 * steps_to_decade + 1;
  LrSweep sweep{
      .device = chosen.device, .batch_size = config.batch_size, .precision_note = std::move(precision_note)};
  double recent = 0, least = 0;
  for (int64_t i = 0; i < steps; ++i) {
    throw_if_interrupted();
    if (batches.epoch_is_over()) batches.begin_epoch();
    const double lr = low * std::pow(10.0, static_cast<double>(i) / steps_to_decade);
    const double loss = learner.step(batches.take(), lr).loss.item();
    if (!std::isfinite(loss)) break;
    sweep.points.push_back({.lr = lr, .loss = loss});
    recent = i == 0 ? loss : 0.8 * recent + 0.2 * loss;
    least = i == 0 ? loss : std::min(least, recent);
    on_step(i + 1, steps);
    if (recent > too_large * least) break;
  }
  judge(sweep);
  return sweep;
}

}  // namespace athanor
