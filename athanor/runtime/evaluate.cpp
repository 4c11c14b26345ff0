#include "athanor/runtime/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <span>
#include <unordered_map>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/trust.h"
#include "athanor/runtime/collect.h"
#include "athanor/runtime/eval_in_portions.h"
#include "athanor/runtime/thread_owned.h"

namespace athanor {
namespace {

// A plan contains an arena layout and kernels, a few hundred KiB. Programs with more different steps are
// rare.
constexpr size_t max_cached_plans = 256;

// Everything that decides the plan, as words that are compared whole.
using PlanKey = std::vector<uint64_t>;
struct KeyHash {
  size_t operator()(const PlanKey& key) const {
    uint64_t hash = key.size();
    for (uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL, hash ^= hash >> 32;
    return hash;
  }
};

/// Numbers segments in the order in which they come: every step makes new ones.
class SegmentNumbers {
 public:
  Segment of(const Node& node) {
    if (node.segment.number == 0) return {};
    const auto next = static_cast<int32_t>(numbers_.size() + 1);
    return {numbers_.emplace(node.segment.number, next).first->second, node.segment.result};
  }

 private:
  std::unordered_map<int32_t, int32_t> numbers_;
};

PlanKey key_of(const Collected& collected, const CompileOptions& options) {
  PlanKey key;
  key.reserve(collected.nodes.size() * 6 + 8);
  key.push_back(options.disabled | uint64_t{options.deterministic} << 32 | uint64_t{options.check_nan} << 33 |
                static_cast<uint64_t>(options.tuning) << 34 | uint64_t{options.only_plans} << 36);
  key.push_back(static_cast<uint64_t>(options.plan_limit()));
  key.push_back(options.host_ops.size());
  for (const std::string& name : options.host_ops) append_words(key, name);
  size_t input = 0;
  SegmentNumbers segments;
  for (size_t place = 0; place < collected.nodes.size(); ++place) {
    const Node* node = collected.nodes[place];
    key.push_back(reinterpret_cast<uintptr_t>(node->value ? nullptr : node->op));
    key.push_back(static_cast<uint64_t>(node->type.dtype) |
                  static_cast<uint64_t>(node->type.device.provider) << 8 |
                  static_cast<uint64_t>(node->type.device.index) << 16 |
                  static_cast<uint64_t>(node->type.shape.rank()) << 24 |
                  static_cast<uint64_t>(node->value ? Precision::f32 : node->precision) << 32 |
                  static_cast<uint64_t>(node->value ? 0 : segments.of(*node).number) << 40 |
                  static_cast<uint64_t>(!node->value && node->segment.result) << 39);
    for (int64_t d : node->type.shape) key.push_back(static_cast<uint64_t>(d));
    if (node->value) {
      key.push_back(collected.donated[input++]);
      continue;
    }
    node->attrs.append_to(key);
    for (const int in : collected.inputs_of(place)) key.push_back(static_cast<uint64_t>(in));
  }
  for (const int root : collected.root_places) key.push_back(static_cast<uint64_t>(root));
  return key;
}

Graph graph_of(const Collected& collected) {
  static const Op& input_op = find_primitive(Prim::input);
  Graph graph;
  SegmentNumbers segments;
  for (size_t place = 0; place < collected.nodes.size(); ++place) {
    const Node* node = collected.nodes[place];
    GraphNode copy{.op = node->value ? &input_op : node->op,
                   .attrs = {},
                   .inputs = {},
                   .type = node->type,
                   .layout = {},
                   .epilogue = {},
                   .where = node->where,
                   .part = node->part};
    if (!node->value) {
      copy.precision = node->precision;
      copy.segment = segments.of(*node);
      copy.attrs = node->attrs;
      const std::span inputs = collected.inputs_of(place);
      copy.inputs.assign(inputs.begin(), inputs.end());
    }
    graph.add(std::move(copy));
  }
  graph.inputs = collected.input_places;
  graph.outputs = collected.root_places;
  return graph;
}

struct CachedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<PlanHistory> history;
};

struct State {
  std::unordered_map<PlanKey, CachedPlan, KeyHash> plans;
  std::list<const PlanKey*> order;  // oldest first
  std::shared_ptr<const Plan> last;
  EvaluationStats stats;
  ScopedProfile* profile = nullptr;
};
State& state() { return owned_by_thread<State>(); }

CachedPlan find_plan(const Collected& collected, Clock::time_point start) {
  State& s = state();
  PlanKey key = key_of(collected, compile_options());
  if (auto found = s.plans.find(key); found != s.plans.end()) {
    ++s.stats.plans_reused;
    s.stats.rebuild_seconds += seconds_since(start);
    return found->second;
  }
  CachedPlan made{
      std::make_shared<const Plan>(compile(graph_of(collected), collected.donated, compile_options())),
      std::make_shared<PlanHistory>()};
  ++s.stats.plans_compiled;
  s.stats.compile_seconds += made.plan->compile_seconds;
  s.stats.timing_seconds += made.plan->timing_seconds;
  s.stats.problems_timed += made.plan->problems_timed;
  release_kept_memory(Device{});  // compiling and timing took memory that steps do not need
  for (const Device device : made.plan->devices) backend_of(device).unload_unused_kernels(device.index);
  if (s.plans.size() >= max_cached_plans) {
    s.plans.erase(*s.order.front());
    s.order.pop_front();
  }
  const auto entry = s.plans.emplace(std::move(key), made).first;
  s.order.push_back(&entry->first);
  return made;
}

// The requested nodes and everything pending that someone still holds, without duplicates and without those
// that have values.
std::vector<NodePtr> roots_of(const std::vector<NodePtr>& asked) {
  std::vector<NodePtr> roots = pending_nodes();
  for (const auto& node : asked)
    if (!node->value) roots.push_back(node);
  std::sort(roots.begin(), roots.end(), [](const NodePtr& a, const NodePtr& b) { return a->id < b->id; });
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

Collected collect_on_examined(const std::vector<NodePtr>& roots) {
  Collected collected = collect(roots);
  std::vector<Device> devices;
  for (const Node* node : collected.nodes)
    if (std::ranges::find(devices, node->type.device) == devices.end()) devices.push_back(node->type.device);
  const bool only_plans = compile_options().only_plans;
  for (const Device device : devices) only_plans ? require_not_failed(device) : require_examined(device);
  return collected;
}

// After an error, values that a started step updates in place may be half new. They and all values computed
// from them are lost. Everything else stays as it was and may be evaluated again.
void lose_overwritten(const Collected& collected, const Plan& plan, size_t begun,
                      const std::string& failure) {
  std::vector<bool> lost(collected.nodes.size(), false);
  const auto reason = std::make_shared<const std::string>(failure);
  const auto lose = [&](size_t place) {
    lost[place] = true;
    collected.nodes[place]->value = nullptr;
    collected.nodes[place]->lost = reason;
  };
  for (size_t s = 0; s < begun; ++s)
    for (int written : plan.steps[s].writes) {
      const int input = plan.values[static_cast<size_t>(written)].in_place_of;
      if (input < 0 || plan.values[static_cast<size_t>(input)].kind != PlanValue::Kind::input) continue;
      const int binding = plan.values[static_cast<size_t>(input)].binding;
      lose(static_cast<size_t>(collected.input_places[static_cast<size_t>(binding)]));
    }
  const auto is_lost = [&](int place) { return lost[static_cast<size_t>(place)]; };
  for (size_t place = 0; place < lost.size(); ++place)
    if (!lost[place] && std::ranges::any_of(collected.inputs_of(place), is_lost)) lose(place);
}

// The host's kernels are there already, and copies need no kernel.
bool needs_kernel(const PlanStep& step) {
  return step.kind == PlanStep::Kind::launch && step.device != Device{};
}

void compute(const std::vector<NodePtr>& roots) {
  const auto start = Clock::now();
  if (roots.empty()) return;
  const Collected collected = collect_on_examined(roots);
  const auto [plan, history] = find_plan(collected, start);
  if (compile_options().only_plans && std::ranges::any_of(plan->steps, needs_kernel)) {
    const OnlyPlansScope runs(false);
    return compute(roots);
  }
  const auto run_start = Clock::now();
  std::vector<std::shared_ptr<Storage>> inputs;
  for (int place : collected.input_places) {
    inputs.push_back(collected.nodes[static_cast<size_t>(place)]->value);
    if (inputs.back()->address() == nullptr && inputs.back()->bytes() > 0)
      throw Error(ErrorCode::value, "a placeholder was to be evaluated", {},
                  "It has no elements: give a tensor of numbers to compute with");
  }
  std::vector<std::shared_ptr<Storage>> outputs;
  size_t begun = 0;
  try {
    const CompileOptions& options = compile_options();
    const int64_t before = history->replays.runs;
    ScopedProfile* const profile = state().profile;
    outputs = execute(*plan, inputs,
                      {.check_nan = options.check_nan,
                       .replay = options.enabled(Pass::replay),
                       .times = profile == nullptr ? nullptr : &profile->times(plan)},
                      *history, begun);
    state().stats.plans_replayed += history->replays.runs - before;
  } catch (const std::exception& error) {
    lose_overwritten(collected, *plan, begun, error.what());
    throw;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Node& root = *collected.roots[i];
    root.value = std::move(outputs[i]);
    if (!root.requires_grad || root.spent || root.slot) root.inputs.clear();
  }
  state().stats.run_seconds += seconds_since(run_start);
  state().last = plan;
}

void evaluate(const std::vector<NodePtr>& asked) { compute(roots_of(asked)); }

[[maybe_unused]] const bool registered = (set_evaluator(evaluate), true);

}  // namespace

void eval_in_portions() {
  constexpr size_t least = size_t{1} << 20, portions = 16;
  const std::vector<NodePtr> roots = roots_of({});
  size_t all = 0;
  for (const auto& root : roots) all += root->type.bytes();
  const size_t most = std::max(least, all / portions);
  std::vector<NodePtr> portion;
  size_t bytes = 0;
  const auto finish = [&] {
    compute(portion);
    portion.clear();
    bytes = 0;
  };
  for (const auto& root : roots) {
    if (bytes + root->type.bytes() > most) finish();
    portion.push_back(root);
    bytes += root->type.bytes();
  }
  finish();
  release_arenas();
}

const EvaluationStats& evaluation_stats() { return state().stats; }
void reset_evaluation_stats() { state().stats = {}; }
std::shared_ptr<const Plan> last_plan() { return state().last; }
ScopedProfile::ScopedProfile() : outer_(state().profile) { state().profile = this; }
ScopedProfile::~ScopedProfile() { state().profile = outer_; }
void clear_plan_cache() { state().plans.clear(), state().order.clear(); }

void forget_plans_with(const std::set<std::string>& problems) {
  State& s = state();
  const auto has_one = [&](const Plan& plan) {
    return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
      return step.request && problems.contains(problem_key(step.device, *step.request));
    });
  };
  s.order.remove_if([&](const PlanKey* key) { return has_one(*s.plans.at(*key).plan); });
  std::erase_if(s.plans, [&](const auto& entry) { return has_one(*entry.second.plan); });
}

std::shared_ptr<const Plan> plan_for(const std::vector<Tensor>& values) {
  std::vector<NodePtr> asked;
  for (const auto& value : values) asked.push_back(value.node());
  const std::vector<NodePtr> roots = roots_of(asked);
  const Collected collected = collect_on_examined(roots);
  return find_plan(collected, Clock::now()).plan;
}

}  // namespace athanor
