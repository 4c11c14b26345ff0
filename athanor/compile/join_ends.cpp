// Ends of reductions: the launches that join the parts of sums and of largest elements, such as those of the
// gradients of all weights, become steps of their own. Then join_loops() runs many of them in one launch.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"
#include "athanor/kernels/kernel.h"

namespace athanor {
namespace {

class EndSplitter {
 public:
  explicit EndSplitter(const Plan& plan) : plan_(plan), writers_(plan.values.size(), 0) {
    for (const PlanStep& step : plan.steps) {
      for (const int v : step.writes) ++writers_[static_cast<size_t>(v)];
      kernels_.push_back(split_kernel(step));
    }
  }

  /// The plan in which these of its steps are two steps; {}: all that can be.
  Plan split(const std::set<size_t>& chosen = {}) {
    Plan all = plan_;
    all.steps.clear();
    split_.clear();
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!kernels_[s] || (!chosen.empty() && !chosen.contains(s))) {
        all.steps.push_back(plan_.steps[s]);
        continue;
      }
      split_[static_cast<int>(all.values.size())] = s;
      add_two(all, plan_.steps[s], *kernels_[s]);
    }
    return all;
  }

  /// The steps of the original plan whose ends share a step with others, when join_loops() has run.
  std::set<size_t> joined(const Plan& joined) const {
    std::set<size_t> all;
    for (const PlanStep& step : joined.steps)
      if (step.loops.size() > 1)
        for (const int v : step.reads)
          if (const auto found = split_.find(v); found != split_.end()) all.insert(found->second);
    return all;
  }

 private:
  std::optional<SplitKernel> split_kernel(const PlanStep& step) const {
    if (step.kind != PlanStep::Kind::launch || step.again || step.writes.empty() ||
        backend_of(step.device).most_joined_buffers(step.device.index) == 0 ||
        std::ranges::any_of(step.writes, [&](int v) { return writers_[static_cast<size_t>(v)] > 1; }))
      return {};
    return backend_of(step.device).split_kernel(step.device.index, step.kernel, step.buffers.size());
  }

  static void add_two(Plan& all, const PlanStep& whole, const SplitKernel& two) {
    const int parts = static_cast<int>(all.values.size());
    PlanValue value;
    value.type = {DType::u8, Shape({two.parts_bytes}), whole.device};
    all.values.push_back(value);

    PlanStep first = whole, last;
    first.kernel = two.first;
    first.spares_scratch = false;  // its kernel is ready, and no candidate any more
    first.buffers.push_back({parts, 0});
    last.queue = whole.queue;
    last.device = whole.device;
    last.after = whole.after;
    last.where = whole.where;
    last.parts = whole.parts;
    for (const LoopReduction& reduction : two.last.reductions)
      last.ops.emplace_back(to_string(reduction.prim));
    last.loops = {two.last};
    for (const SplitKernel::Place& place : two.places) {
      const BufferRef& from = first.buffers[place.buffer];
      last.buffers.push_back({from.value, from.byte_offset + place.byte_offset});
    }
    const auto value_of = [&](int operand) {
      return last.buffers[static_cast<size_t>(two.last.operands[static_cast<size_t>(operand)].buffer)].value;
    };
    for (const LoopStore& store : two.last.epilogue_stores)
      add_new(last.writes, std::vector{value_of(store.operand)});
    for (const auto* steps : {&two.last.body, &two.last.epilogue})
      for (const LoopStep& step : *steps)
        if (step.kind == LoopStep::Kind::load) add_new(last.reads, std::vector{value_of(step.operand)});
    std::erase_if(first.writes, [&](int v) { return std::ranges::count(last.writes, v) > 0; });
    first.writes.push_back(parts);
    all.steps.push_back(std::move(first));
    all.steps.push_back(std::move(last));
  }

  const Plan& plan_;
  std::vector<int> writers_;                         // of each value
  std::vector<std::optional<SplitKernel>> kernels_;  // of each step
  std::map<int, size_t> split_;  // by the value of the parts: the step of the original plan
};

}  // namespace

bool join_ends(Plan& plan) {
  EndSplitter splitter(plan);
  Plan trial = splitter.split();
  join_loops(trial);
  const std::set<size_t> joined = splitter.joined(trial);
  if (joined.empty()) return false;
  // Ends that share no launch stay where they are.
  trial = splitter.split(joined);
  join_loops(trial);
  plan = std::move(trial);
  return true;
}

}  // namespace athanor
