// Recomputation: less memory for more time (activation checkpointing). Griewank and Walther (2000); Chen and
// others (2016).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/compile/low_limit.h"
#include "athanor/compile/reruns.h"

namespace athanor {
namespace {

using Selection = Reruns::Selection;
using How = Reruns::How;

/// The devices that a limit applies to: all except the host, or the host if it is the only one.
std::vector<Device> limited_devices(const Plan& plan) {
  std::vector<Device> devices = plan.devices;
  if (devices.size() > 1) std::erase(devices, Device{});
  return devices;
}

bool fits(const Plan& plan, int64_t limit) {
  return std::ranges::all_of(limited_devices(plan),
                             [&](Device device) { return plan.planned_memory_bytes(device) <= limit; });
}

int64_t most_on_a_device(const Plan& plan) {
  int64_t most = 0;
  for (const Device device : limited_devices(plan)) most = std::max(most, plan.planned_memory_bytes(device));
  return most;
}

int64_t arena_of(const Plan& plan, Device device) {
  const auto found = std::ranges::find(plan.arenas, device, &PlanArena::device);
  return found == plan.arenas.end() ? 0 : found->bytes;
}

/// Chooses the values to compute again, one at a time: each time the value that saves most excess memory per
/// second of recomputation. If that search finds no selection, seconds count less, and in the end not at all:
/// whether a plan fits should not depend on how long kernels took when they were timed.
class Chooser {
 public:
  Chooser(const Plan& plan, const CompileOptions& options)
      : plan_(plan), options_(options), reruns_(plan), by_hand_(reruns_.by_hand()) {}

  const Reruns& reruns() const { return reruns_; }
  const Selection& by_hand() const { return by_hand_; }

  Plan placed(const Selection& selection) const {
    Plan plan = reruns_.apply(selection);
    place_values(plan, options_);
    return plan;
  }

  /// A selection with which the plan fits the limit; nullopt if no search finds one.
  std::optional<Selection> fit(int64_t limit) const {
    for (const double weight : {1.0, 0.5, 0.0})
      if (auto selection = fit(limit, weight)) return selection;
    return std::nullopt;
  }

  /// The selection without the values that the placed plan has room to keep. Values that take longest to
  /// recompute are tried first.
  Selection trimmed(Selection selection, int64_t limit) const {
    constexpr size_t most_tried = 32;
    std::vector<int> chosen = dearest(selection);
    if (chosen.size() > most_tried) chosen.resize(most_tried);
    for (const int v : chosen) {
      Selection without = without_value(selection, v);
      const Device device = plan_.values[static_cast<size_t>(v)].type.device;
      const Reruns::Outcome then = reruns_.outcome(without, device);
      if (then.possible && then.seconds < reruns_.outcome(selection, device).seconds &&
          fits(placed(without), limit))
        selection = std::move(without);
    }
    return selection;
  }

  struct Least {
    Selection selection;
    int64_t bytes;
  };
  /// The lowest limit for which fit() finds a selection, to half a percent or a byte.
  Least least() const {
    Least best{by_hand_, most_on_a_device(placed(by_hand_))};
    int64_t too_small = 0;
    while (best.bytes - too_small > std::max<int64_t>(1, best.bytes / 200)) {
      const int64_t middle = too_small + (best.bytes - too_small) / 2;
      if (auto selection = fit(middle)) {
        const int64_t bytes = most_on_a_device(placed(*selection));
        best = {std::move(*selection), bytes};
      } else {
        too_small = middle;
      }
    }
    return best;
  }

 private:
  struct Option {
    int value;
    double worth;  // excess bytes saved per second of recomputation, weighted, when last computed
  };

  /// `weight`: the power of seconds in the worth of a value.
  std::optional<Selection> fit(int64_t limit, double weight) const {
    Selection selection = by_hand_;
    for (const Device device : limited_devices(plan_)) {
      // The arena is a little larger than the most bytes alive at one time, so the target is lowered by the
      // difference and tried again.
      int64_t target = limit - (plan_.planned_memory_bytes(device) - arena_of(plan_, device));
      constexpr int attempts = 8;
      for (int attempt = 0;; ++attempt) {
        if (attempt == attempts || target < 0 || !lower(selection, device, target, weight))
          return std::nullopt;
        const int64_t over = placed(selection).planned_memory_bytes(device) - limit;
        if (over <= 0) break;
        target -= over;
      }
    }
    return fits(placed(selection), limit) ? std::optional(selection) : std::nullopt;
  }

  bool lower(Selection& selection, Device device, int64_t target, double weight) const {
    Reruns::Outcome now = reruns_.outcome(selection, device);
    int64_t excess = now.excess(target);
    if (excess == 0) return true;
    std::vector<Option> options, useless;
    const auto look = [&](int v) {
      const Reruns::Outcome then = reruns_.outcome(reruns_.with(selection, v), device);
      const int64_t gain = then.possible ? excess - then.excess(target) : 0;
      constexpr double least_seconds = 1e-9;
      const double seconds = std::max(least_seconds, then.seconds - now.seconds);
      return gain <= 0 ? 0 : static_cast<double>(gain) / std::pow(seconds, weight);
    };
    const auto file = [&](int v) {
      const double worth = look(v);
      if (worth > 0)
        options.push_back({v, worth}), std::ranges::push_heap(options, {}, &Option::worth);
      else
        useless.push_back({v, 0});
    };
    for (const int v : reruns_.candidates())
      if (selection[static_cast<size_t>(v)] != How::again &&
          plan_.values[static_cast<size_t>(v)].type.device == device)
        file(v);
    bool progress = true;
    while (excess > 0) {
      if (options.empty()) {
        // Values that saved nothing before may save memory now.
        if (!std::exchange(progress, false)) return false;
        for (const Option& one : std::exchange(useless, {})) file(one.value);
        continue;
      }
      std::ranges::pop_heap(options, {}, &Option::worth);
      Option best = options.back();
      options.pop_back();
      best.worth = look(best.value);
      if (best.worth <= 0) {
        useless.push_back(best);
      } else if (!options.empty() && best.worth < options.front().worth) {
        options.push_back(best), std::ranges::push_heap(options, {}, &Option::worth);
      } else {
        selection = reruns_.with(selection, best.value);
        now = reruns_.outcome(selection, device);
        excess = now.excess(target);
        progress = true;
      }
    }
    take_back(selection, device, target);
    return true;
  }

  // The chosen values; those that take longest to recompute come first.
  std::vector<int> dearest(const Selection& selection) const {
    std::vector<int> chosen;
    for (const int v : reruns_.candidates())
      if (selection[static_cast<size_t>(v)] != by_hand_[static_cast<size_t>(v)]) chosen.push_back(v);
    std::ranges::stable_sort(chosen, std::greater(), [&](int v) { return reruns_.rerun_seconds(v); });
    return chosen;
  }

  Selection without_value(Selection selection, int v) const {
    selection[static_cast<size_t>(v)] = by_hand_[static_cast<size_t>(v)];
    return selection;
  }

  // Removes values that need not be recomputed after all. Those that take longest are tried first.
  void take_back(Selection& selection, Device device, int64_t target) const {
    double seconds = reruns_.outcome(selection, device).seconds;
    for (const int v : dearest(selection)) {
      Selection without = without_value(selection, v);
      const Reruns::Outcome then = reruns_.outcome(without, device);
      if (then.possible && then.excess(target) == 0 && then.seconds <= seconds)
        selection = std::move(without), seconds = then.seconds;
    }
  }

  const Plan& plan_;
  const CompileOptions& options_;
  Reruns reruns_;
  Selection by_hand_;
};

Recomputation account_for(const Plan& before, const Plan& after, const Reruns& reruns) {
  Recomputation all;
  double whole = 0;
  for (const PlanStep& step : after.steps) {
    const double seconds = reruns.times().seconds(step);
    whole += seconds;
    if (!step.again) continue;
    ++all.kernels;
    all.flops += step.flops;
    all.seconds += seconds;
  }
  all.share = whole > 0 ? all.seconds / whole : 0;
  if (!reruns.times().known()) all.seconds = 0;
  all.bytes = before.planned_memory_bytes() - after.planned_memory_bytes();
  return all;
}

[[noreturn]] void refuse(const Plan& plan, const CompileOptions& options, int64_t least_plan, bool again) {
  const int64_t least = least_plan + options.memory_beside;
  std::string where;
  for (const Device device : limited_devices(plan))
    if (plan.planned_memory_bytes(device) > options.plan_limit() && device != Device{})
      where = fmt::format(" on {}", to_string(device));
  throw LowMemoryLimit(fmt::format("the memory limit of {} is too low: this needs {}{}{}",
                                   format_bytes(static_cast<uint64_t>(options.memory_limit)),
                                   format_bytes(static_cast<uint64_t>(least)), where,
                                   again ? ", even with all computed again that can be" : ""),
                       least);
}

}  // namespace

LowMemoryLimit::LowMemoryLimit(const std::string& problem, int64_t least)
    : Error(ErrorCode::usage, problem, "--memory-limit", "Give at least " + limit_from(least)),
      least_(least) {}

std::string limit_from(int64_t least) {
  const bool small = least < (int64_t{16} << 20);
  const int64_t unit = int64_t{1} << (small ? 10 : 20);
  return fmt::format("{}{}", (least + unit - 1) / unit, small ? "KiB" : "MiB");
}

bool fits_limit(const Plan& plan, const CompileOptions& options) {
  return options.plan_limit() <= 0 || fits(plan, options.plan_limit());
}

static Plan with_selection(const Plan& plan, const Chooser& chooser, const Selection& selection) {
  Plan result = chooser.placed(selection);
  result.recomputed = account_for(plan, result, chooser.reruns());
  return result;
}

std::optional<Plan> recompute(const Plan& plan, const CompileOptions& options) {
  const bool by_hand = std::ranges::any_of(
      plan.values, [](const PlanValue& v) { return v.segment.number != 0 && !v.segment.result; });
  const bool small = fits_limit(plan, options);
  if (small && !by_hand) return plan;
  if (!options.enabled(Pass::recompute)) return small ? std::optional(plan) : std::nullopt;
  const Chooser chooser(plan, options);
  if (small) return with_selection(plan, chooser, chooser.by_hand());
  const auto fitting = chooser.fit(options.plan_limit());
  if (!fitting) return std::nullopt;
  return with_selection(plan, chooser, chooser.trimmed(*fitting, options.plan_limit()));
}

Plan recompute_most(const Plan& plan, const CompileOptions& options) {
  if (!options.enabled(Pass::recompute)) refuse(plan, options, most_on_a_device(plan), false);
  const Chooser chooser(plan, options);
  const Chooser::Least least = chooser.least();
  if (least.bytes > options.plan_limit()) refuse(plan, options, least.bytes, true);
  return with_selection(plan, chooser, chooser.trimmed(least.selection, options.plan_limit()));
}

}  // namespace athanor
