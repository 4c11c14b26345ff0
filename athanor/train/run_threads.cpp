#include "athanor/train/run_threads.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "athanor/base/os/threads.h"
#include "athanor/base/threads.h"
#include "athanor/compile/options.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

// Another program that shares a core with one of our threads gets at least half of it. Loads of up to this
// many cores do not cost us a thread.
constexpr double left_to_others = 0.35;
constexpr int looks_to_lose = 3, looks_to_gain = 10;

/// Returns `most`, or the number that is now in use if `most` is 0.
int64_t begin_with(int64_t threads, int64_t most) {
  use_threads(threads, most);
  return most > 0 ? most : cpu_threads();
}

}  // namespace

void use_threads(int64_t threads, int64_t most) {
  const int64_t taken = most - threads;
  // A part-time thread adds half a thread. It must be kept off the cores of the others.
  const bool helps = threads > 0 && taken > 0 && 5 * taken >= threads && os::current_core() >= 0;
  set_cpu_threads(static_cast<int>(threads), helps ? static_cast<int>(taken) : 0);
}

int FreeCores::wanted(double others) const {
  return std::clamp(most_ - static_cast<int>(std::ceil(others - left_to_others)), 1, most_);
}

int FreeCores::operator()(double others) {
  const int change = wanted(others) - now_;
  const bool same_way = (change < 0 && looks_ < 0) || (change > 0 && looks_ > 0);
  if (!same_way) looks_ = 0, least_change_ = change;
  if (change == 0) return now_;
  looks_ += change < 0 ? -1 : 1;
  if (std::abs(change) < std::abs(least_change_)) least_change_ = change;
  if (looks_ > -looks_to_lose && looks_ < looks_to_gain) return now_;
  looks_ = 0;
  return now_ += std::exchange(least_change_, 0);
}

int FreeCores::at_once(double others) { return now_ = std::min(now_, wanted(others)); }

ThreadRecord threads_in(const std::vector<StepMetrics>& steps) {
  ThreadRecord record;
  for (const StepMetrics& step : steps)
    if (step.threads > 0) record[step.step] = step.threads;
  return record;
}

RunThreads::RunThreads(const TrainConfig& config, Device device, int64_t threads, int64_t most,
                       CoreClock cores)
    : most_(begin_with(threads > 0 ? threads : config.threads, most)),
      adapts_(device == Device{} && config.threads == 0 && parse_tuning(config.tune) == Tuning::quick &&
              config.memory_limit == 0 && most_ > 1),
      cores_(std::move(cores)),
      free_(static_cast<int>(most_), cpu_threads()) {
  if (adapts_) looked_ = cores_();
  looked_at_ = Clock::now();
}

void RunThreads::repeat_another(const ThreadRecord& changes) {
  repeat(changes);
  if (const auto first = to_come_.find(1); first != to_come_.end()) {
    use_threads(first->second, most_);
    to_come_.erase(first);
  }
}

void RunThreads::go_on_from(const std::vector<StepMetrics>& steps) {
  for (const StepMetrics& step : steps)
    if (step.threads > 0) in_force_ = step.threads;
}

void RunThreads::repeat(const ThreadRecord& changes) {
  for (const auto& [step, threads] : changes) to_come_[step] = threads;
}

std::optional<double> RunThreads::others() {
  const double passed = seconds_since(looked_at_);
  // In less time than this the system's clock ticks only a few times.
  if (passed < (first_look_ ? 0.2 : 1.0) * FreeCores::seconds_between_looks) return std::nullopt;
  const std::optional<os::CoreTime> now = cores_();
  const std::optional<os::CoreTime> before = std::exchange(looked_, now);
  looked_at_ = Clock::now();
  if (!now || !before) return std::nullopt;
  // A program that shares its core with a part-time thread uses less of it than it would.
  const double shared = now->unnoticed - before->unnoticed;
  return (std::max(0.0, (now->all - before->all) - (now->own - before->own)) + shared) / passed;
}

bool RunThreads::before_step(int64_t step, Reporter& reporter, const std::function<void()>& settle) {
  int64_t threads = cpu_threads();
  double busy = 0;
  if (const auto change = to_come_.find(step); change != to_come_.end()) {
    threads = change->second;
    to_come_.erase(change);
    free_ = FreeCores(static_cast<int>(most_), static_cast<int>(threads));
  } else if (adapts_ && to_come_.empty()) {
    const std::optional<double> seen = others();
    if (!seen) return false;
    busy = *seen;
    threads = std::exchange(first_look_, false) ? free_.at_once(busy) : free_(busy);
  }
  if (threads == cpu_threads()) return false;
  settle();
  use_threads(threads, most_);
  clear_plan_cache();
  reporter.threads_changed(
      {.step = step, .threads = threads, .most = most_, .part_time = part_time_threads(), .others = busy});
  return true;
}

int64_t RunThreads::news() {
  const int64_t threads = cpu_threads();
  return std::exchange(in_force_, threads) == threads ? 0 : threads;
}

}  // namespace athanor
