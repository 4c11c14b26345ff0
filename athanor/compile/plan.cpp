#include "athanor/compile/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>
#include <map>

#include "athanor/base/clock.h"
#include "athanor/compile/spare_scratch.h"
#include "athanor/compile/step_times.h"
#include "athanor/compile/views.h"

namespace athanor {

std::string to_string(const PlanQueue& queue) {
  return to_string(queue.device) + (queue.kind == QueueKind::copies_in    ? " copies in"
                                    : queue.kind == QueueKind::copies_out ? " copies out"
                                                                          : "");
}

std::string PlanStep::name() const {
  if (updated > 0)
    return parts.size() == loops.size() ? fmt::format("update of {} parameters", loops.size())
                                        : fmt::format("update of {} tensors", updated);
  // A step may have many ops, so each name comes once, in order, with its count.
  std::vector<std::pair<std::string, int>> counted;
  for (const auto& op : ops) {
    auto same = std::find_if(counted.begin(), counted.end(), [&](const auto& c) { return c.first == op; });
    if (same == counted.end())
      counted.emplace_back(op, 1);
    else
      ++same->second;
  }
  std::vector<std::string> names;
  const bool several = loops.size() > 1 && !chained;
  for (const auto& [op, count] : counted)
    names.push_back(count == 1 || several ? op : fmt::format("{}({})", op, count));
  const std::string all =
      (names.empty() ? "copy" : fmt::format("{}", fmt::join(names, "+"))) + (again ? ", again" : "");
  return several ? fmt::format("{} times {}", loops.size(), all) : all;
}

std::string PlanStep::name_and_parts() const {
  return parts.empty() ? name() : fmt::format("{} in {}", name(), fmt::join(parts, ", "));
}

int Plan::queue_number(PlanQueue queue) {
  const auto found = std::ranges::find(queues, queue);
  const auto number = static_cast<int>(found - queues.begin());
  if (found == queues.end()) queues.push_back(queue);
  return number;
}

std::vector<Plan::Stretch> Plan::stretches() const {
  std::vector<Stretch> all;
  const auto follows = [&](size_t s) {
    if (s == 0) return false;
    const PlanStep &step = steps[s], &before = steps[s - 1];
    return step.kind == PlanStep::Kind::launch && before.kind == PlanStep::Kind::launch &&
           step.queue == before.queue && step.waits.empty() && !before.signals;
  };
  for (size_t s = 0; s < steps.size(); ++s)
    if (follows(s))
      ++all.back().end;
    else
      all.push_back({s, s + 1});
  return all;
}

std::string Plan::why_not_replayed() const {
  if (steps.size() < 2) return "it has one step";
  const auto may_be_captured = [&](const Stretch& stretch) {
    return stretch.steps() > 1 && steps[stretch.first].device != Device{};
  };
  return std::ranges::any_of(stretches(), may_be_captured)
             ? ""
             : "no two of its launches follow one another on a device";
}

int64_t PlanValue::bytes() const {
  const auto dense = static_cast<int64_t>(type.bytes());
  return row_pitch == 0 ? dense : dense / type.shape[-1] * row_pitch;
}

int64_t Plan::flops() const {
  int64_t total = 0;
  for (const auto& step : steps) total += step.flops;
  return total;
}

int64_t Plan::bytes() const {
  int64_t total = 0;
  for (const auto& step : steps) total += step.bytes;
  return total;
}

int64_t Plan::arena_bytes() const {
  int64_t total = 0;
  for (const PlanArena& arena : arenas) total += arena.bytes;
  return total;
}

int64_t Plan::planned_memory_bytes() const {
  int64_t total = 0;
  for (const Device device : devices) total += planned_memory_bytes(device);
  return total;
}

int64_t Plan::planned_memory_bytes(Device device) const {
  int64_t total = 0;
  for (const PlanArena& arena : arenas)
    if (arena.device == device) total += arena.bytes;
  for (const auto& value : values)
    if (value.type.device == device && (value.kind == PlanValue::Kind::input ||
                                        (value.kind == PlanValue::Kind::output && value.in_place_of < 0)))
      total += value.bytes();
  return total;
}

int Plan::kernels_off_device() const {
  return static_cast<int>(std::ranges::count_if(steps, &PlanStep::off_device));
}

int Plan::copies() const {
  return static_cast<int>(
      std::ranges::count_if(steps, [](const PlanStep& step) { return step.kind == PlanStep::Kind::copy; }));
}

Plan schedule(const Graph& graph, const std::vector<bool>& donated, const CompileOptions& options) {
  Plan plan =
      make_steps(fuse_epilogues(add_copies(choose_layouts(graph, options)), donated, options), options);
  if (options.enabled(Pass::inplace)) write_concats(plan);
  // To report which tensor has a NaN, each loop must be a step by itself.
  if (options.enabled(Pass::chain) && !options.spares_memory && !options.check_nan) chain_rows(plan);
  if (options.enabled(Pass::epilogue) && !options.spares_memory) absorb_loops(plan, donated);
  // To report which tensor has a NaN, each one must be in memory.
  if (options.enabled(Pass::prologue) && !options.spares_memory && !options.check_nan) absorb_prologues(plan);
  if (options.enabled(Pass::layout) && !options.spares_memory && !options.check_nan) align_rows(plan);
  order_steps(plan, donated, options);
  if (options.enabled(Pass::inplace) && plan.copies() > 0) delay_copies(plan);
  // To report which tensor has a NaN, each loop must be a step by itself.
  if (options.enabled(Pass::join) && !options.check_nan) join_loops(plan);
  place_values(plan, options);
  return plan;
}

static Plan with_kernels(Plan plan, const CompileOptions& options) {
  choose_kernels(plan, options);
  place_values(plan, options);
  return plan;
}

// Whether each kernel that was taken for its little scratch memory was timed, and the plan takes less time
// than the other.
static bool is_faster(const Plan& spared, const Plan& other) {
  StepTimes times;
  const bool timed = std::ranges::all_of(
      spared.steps, [](const PlanStep& step) { return !step.spares_scratch || StepTimes::timed(step); });
  return timed && times.seconds(spared) < times.seconds(other);
}

// Recomputes values so that the plan fits the memory limit. If that is not enough or takes long, kernels need
// less scratch memory too.
static Plan within_limit(Plan plan, const CompileOptions& options) {
  const bool fits = fits_limit(plan, options);
  auto fitting = recompute(plan, options);
  if (fits) return std::move(*fitting);
  SparedScratch spared(plan);
  if (!spared.any()) return fitting ? std::move(*fitting) : recompute_most(plan, options);
  place_values(plan, options);
  auto other = recompute(plan, options);
  if (!other && fitting) return std::move(*fitting);
  if (!other) other = recompute_most(plan, options);
  spared.give_back(*other, [&](Plan placed) {
    place_values(placed, options);
    return fits_limit(placed, options);
  });
  return fitting && !is_faster(*other, *fitting) ? std::move(*fitting) : std::move(*other);
}

// With the ends of reductions in few launches, unless the plan then needs more memory than it may.
static Plan with_joined_ends(Plan plan, const CompileOptions& options) {
  if (!options.enabled(Pass::join) || options.check_nan) return plan;
  Plan joined = plan;
  if (!join_ends(joined)) return plan;
  joined = with_kernels(std::move(joined), options);
  return options.memory_limit > 0 && !fits_limit(joined, options) ? plan : joined;
}

Plan compile(const Graph& source, const std::vector<bool>& donated, const CompileOptions& options) {
  const auto start = Clock::now();
  Graph graph = lower(autocast(source), options);
  graph = options.enabled(Pass::simplify) ? one_pass_variances(simplify(orient_products(graph)))
                                          : remove_dead(graph);
  if (options.enabled(Pass::epilogue)) graph = cast_vectors_first(graph);
  Plan plan = with_kernels(schedule(graph, donated, options), options);
  if (options.memory_limit > 0 && plan.planned_memory_bytes() > options.plan_limit()) {
    // Joined loops keep operands alive until they run, and so do epilogues.
    CompileOptions apart = options;
    apart.spares_memory = true;
    apart.disabled |= 1U << static_cast<int>(Pass::join);
    plan = with_kernels(schedule(graph, donated, apart), options);
  }
  plan = with_kernels(within_limit(std::move(plan), options), options);
  plan = with_joined_ends(std::move(plan), options);
  order_queues(plan);
  plan.compile_seconds = seconds_since(start);
  return plan;
}

}  // namespace athanor
