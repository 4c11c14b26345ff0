#include "athanor/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/optim/optimizer.h"

namespace athanor::optim {
namespace {

void check(bool good, const std::string& what, const char* hint) {
  if (!good) throw Error(ErrorCode::value, what, {}, hint);
}

void check_steps(int64_t steps) {
  check(steps > 0, fmt::format("a schedule of {} steps", steps), "It needs at least one");
}

// Goes from `from` to `to` as `share` goes from 0 to 1.
double along_cosine(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}
double along_line(double from, double to, double share) { return from + (to - from) * share; }

}  // namespace

Schedule constant(double lr) {
  check_learning_rate(lr);
  return [lr](int64_t) { return lr; };
}

Schedule step_decay(double lr, int64_t every, double gamma) {
  check_learning_rate(lr);
  check_steps(every);
  return [=](int64_t step) {
    const int64_t drops = step / every;
    return lr * std::pow(gamma, static_cast<double>(drops));
  };
}

Schedule multi_step(double lr, std::vector<int64_t> milestones, double gamma) {
  check_learning_rate(lr);
  std::sort(milestones.begin(), milestones.end());
  return [lr, gamma, milestones = std::move(milestones)](int64_t step) {
    const auto reached = std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
    return lr * std::pow(gamma, static_cast<double>(reached));
  };
}

Schedule cosine(double lr, int64_t steps, double last) {
  check_learning_rate(lr);
  check_learning_rate(last);
  check_steps(steps);
  return [=](int64_t step) {
    return along_cosine(lr, last, static_cast<double>(std::min(step, steps)) / static_cast<double>(steps));
  };
}

Schedule one_cycle(double max_lr, int64_t steps, const OneCycle& options) {
  check_learning_rate(max_lr);
  check_steps(steps);
  check(options.warm_share >= 0 && options.warm_share <= 1,
        fmt::format("a one-cycle schedule that warms up for {} of its steps", options.warm_share),
        "It must be in [0, 1]");
  check(options.start_divisor > 0 && options.final_divisor > 0,
        "a one-cycle schedule with a divisor that is not positive",
        "start_divisor and final_divisor must be positive");
  const double first = max_lr / options.start_divisor, last = first / options.final_divisor;
  const double end = static_cast<double>(steps - 1);
  const double peak =
      // a step number, perhaps between two steps
      std::max(0.0, options.warm_share * static_cast<double>(steps) - 1);
  const auto along = options.linear ? along_line : along_cosine;
  return [=](int64_t step) {
    const double at = std::min(static_cast<double>(step), end);
    if (at <= peak) return peak > 0 ? along(first, max_lr, at / peak) : max_lr;
    return along(max_lr, last, (at - peak) / (end - peak));
  };
}

Schedule warm_up(int64_t steps, Schedule then, double start_factor) {
  check(steps >= 0, fmt::format("a warm-up of {} steps", steps), "It may not be negative");
  check(start_factor >= 0 && start_factor <= 1, fmt::format("a warm-up from {} of the rate", start_factor),
        "It must be in [0, 1]");
  return [steps, start_factor, then = std::move(then)](int64_t step) {
    if (step >= steps) return then(step - steps);
    return then(0) * along_line(start_factor, 1, static_cast<double>(step) / static_cast<double>(steps));
  };
}

Schedule make_schedule(const std::string& name, const ScheduleOptions& o) {
  const int64_t warm_up_steps = name == "one-cycle" ? 0 : o.warm_up_steps;
  const int64_t steps = std::max<int64_t>(1, o.total_steps - warm_up_steps);
  Schedule schedule;
  if (name == "constant")
    schedule = constant(o.lr);
  else if (name == "step")
    schedule = step_decay(o.lr, o.step_every > 0 ? o.step_every : (steps + 2) / 3, o.gamma);
  else if (name == "cosine")
    schedule = cosine(o.lr, steps);
  else if (name == "one-cycle")
    schedule = one_cycle(o.lr, steps);
  else {
    const std::vector<std::string_view> names(schedule_names().begin(), schedule_names().end());
    throw Error(ErrorCode::name, fmt::format("unknown schedule '{}'", name), {}, nearest_hint(name, names));
  }
  return warm_up_steps > 0 ? warm_up(warm_up_steps, std::move(schedule)) : schedule;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"constant", "step", "cosine", "one-cycle"};
  return names;
}

}  // namespace athanor::optim
