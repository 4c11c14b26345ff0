// Joining: loops with the same program on different tensors, which do not depend on each other, become one
// step. This saves launches. It may cost memory, because the first loops wait for the last.
#include <algorithm>
#include <map>
#include <set>

#include "athanor/compile/canonical_loop.h"
#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"
#include "athanor/kernels/kernel.h"

namespace athanor {
namespace {

// A loop that moves more bytes than this does not join: a launch is a small part of its time (some hundredths
// on a CPU, a third on a large GPU), and joining would keep much memory alive.
constexpr int64_t most_bytes = int64_t{32} << 20;
// Memory may grow by this share of what the plan needs, or by a size that every device can spare.
constexpr int64_t memory_share = 16, free_bytes = int64_t{4} << 20;
// The most elements of a reduction that joins others: one group of work-items reduces them.
constexpr int64_t most_reduced = 4096;

// Whether all that a loop does is to reduce a few elements to one.
bool is_small_reduction(const LoopProgram& program) {
  const auto in_body = [&](int r) { return r >= 0 && r < static_cast<int>(program.body.size()); };
  return !program.reductions.empty() && program.space.size() == 1 && program.reduced[0] &&
         program.iterations() <= most_reduced && program.stores.empty() &&
         std::ranges::none_of(program.reductions, [](const auto& r) { return r.prim == Prim::argmax; }) &&
         std::ranges::none_of(
             program.epilogue,
             [&](const LoopStep& e) { return in_body(e.a) || in_body(e.b) || in_body(e.c); }) &&
         std::ranges::none_of(program.epilogue_stores, in_body, &LoopStore::source);
}

/// A step that may run together with others.
struct Joinable {
  int step;
  CanonicalLoop loop;
};

class LoopJoiner {
 public:
  LoopJoiner(Plan& plan, Device device, int64_t max_buffers)
      : plan_(plan), device_(device), max_buffers_(max_buffers) {
    for (int s = 0; s < count(); ++s) position_.push_back(s);
    find_latest();
  }

  void run() {
    find_joinable();
    const int64_t limit = most_alive() + std::max(free_bytes, bound_bytes() / memory_share);
    for (;;) {
      make_groups();
      int worst = -1;
      if (most_alive(&worst) <= limit || worst < 0) break;
      leave(worst);
    }
    rewrite();
  }

 private:
  int count() const { return static_cast<int>(plan_.steps.size()); }
  const PlanStep& step(int s) const { return plan_.steps[static_cast<size_t>(s)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int& position(int s) { return position_[static_cast<size_t>(s)]; }

  // The latest position of each step: before the first step that reads its results or overwrites its
  // operands.
  void find_latest() {
    latest_.assign(plan_.steps.size(), count() - 1);
    // For each value: the first step after the current one that reads it, and the first that overwrites it.
    std::vector<int> user(plan_.values.size(), count()), overwriter(plan_.values.size(), count());
    for (int s = count() - 1; s >= 0; --s) {
      for (int v : step(s).writes)
        latest_[static_cast<size_t>(s)] = std::min(latest_of(s), user[static_cast<size_t>(v)] - 1);
      for (int v : step(s).reads)
        latest_[static_cast<size_t>(s)] = std::min(latest_of(s), overwriter[static_cast<size_t>(v)] - 1);
      for (const auto* list : {&step(s).reads, &step(s).after})
        for (int v : *list) user[static_cast<size_t>(v)] = s;
      for (int v : step(s).writes)
        if (value(v).in_place_of >= 0) overwriter[static_cast<size_t>(value(v).in_place_of)] = s;
    }
  }
  int latest_of(int s) const { return latest_[static_cast<size_t>(s)]; }

  // Classes of loops that differ only in extent and buffers, each in the order of steps.
  void find_joinable() {
    std::vector<Joinable> single;
    for (int s = 0; s < count(); ++s) {
      const PlanStep& one = step(s);
      if (one.loops.size() != 1 || one.device != device_ || one.bytes > most_bytes || one.kernel.kernel)
        continue;
      const LoopProgram program = simplify_loop(one.loops.front());
      if (program.space.size() > 1 || program.iterations() == 0) continue;
      if (!program.reductions.empty() && !is_small_reduction(program)) continue;
      Joinable joinable{s, canonical(program)};
      if (program.space.empty())  // one element fits any strides, so these are added last
        single.push_back(std::move(joinable));
      else
        add(std::move(joinable));
    }
    for (Joinable& one : single) add(std::move(one));
    for (auto& members : classes_) std::ranges::sort(members, {}, &Joinable::step);
  }

  void add(Joinable joinable) {
    const auto found = std::ranges::find_if(classes_, [&](const auto& members) {
      return same_program(members.front().loop.program, joinable.loop.program);
    });
    if (found == classes_.end())
      classes_.push_back({std::move(joinable)});
    else
      found->push_back(std::move(joinable));
  }

  // Groups neighbours of a class. A group grows while all its loops can wait for the last one and a kernel
  // takes that many buffers.
  void make_groups() {
    groups_.clear();
    for (int s = 0; s < count(); ++s) position(s) = s;
    for (const auto& members : classes_) {
      std::vector<const Joinable*> group;
      std::set<std::pair<int, int64_t>> places;
      int latest = 0;
      const auto close = [&] {
        for (const Joinable* m : group) position(m->step) = group.back()->step;
        if (group.size() > 1) groups_.push_back(group);
        group.clear();
        places.clear();
      };
      for (const Joinable& m : members) {
        std::set<std::pair<int, int64_t>> with = places;
        for (const BufferRef& ref : step(m.step).buffers) with.emplace(ref.value, ref.byte_offset);
        if (!group.empty() && (m.step > latest || static_cast<int64_t>(with.size()) > max_buffers_)) {
          close();
          with.clear();
          for (const BufferRef& ref : step(m.step).buffers) with.emplace(ref.value, ref.byte_offset);
        }
        latest = group.empty() ? latest_of(m.step) : std::min(latest, latest_of(m.step));
        group.push_back(&m);
        places = std::move(with);
      }
      close();
    }
  }

  // The most bytes of temporaries alive at one time, with every step at its position. `worst`: the delayed
  // step that keeps most memory alive at that time.
  int64_t most_alive(int* worst = nullptr) const {
    const auto steps = plan_.steps.size();
    std::vector<int> first(plan_.values.size(), -1), last(plan_.values.size(), -1);
    for (size_t s = 0; s < steps; ++s) {
      for (int v : step(static_cast<int>(s)).writes) first[static_cast<size_t>(v)] = position_[s];
      for (int v : step(static_cast<int>(s)).reads)
        last[static_cast<size_t>(v)] = std::max(last[static_cast<size_t>(v)], position_[s]);
    }
    std::vector<int64_t> change(steps + 1, 0);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      if (plan_.values[v].kind != PlanValue::Kind::temporary || first[v] < 0) continue;
      const int64_t bytes = plan_.values[v].bytes();
      change[static_cast<size_t>(first[v])] += bytes;
      change[static_cast<size_t>(std::max(first[v], last[v])) + 1] -= bytes;
    }
    int64_t alive = 0, most = 0;
    int at = 0;
    for (size_t s = 0; s < steps; ++s)
      if (alive += change[s]; alive > most) most = alive, at = static_cast<int>(s);
    if (worst != nullptr) *worst = most_kept(at);
    return most;
  }

  // The step that reads most bytes of temporaries, of those that are delayed from before `at` to after it.
  int most_kept(int at) const {
    int found = -1;
    int64_t most = -1;
    for (int s = 0; s < at && s < count(); ++s) {
      if (position_[static_cast<size_t>(s)] < at || position_[static_cast<size_t>(s)] == s) continue;
      int64_t kept = 0;
      for (int v : step(s).reads)
        if (value(v).kind == PlanValue::Kind::temporary) kept += value(v).bytes();
      if (kept > most) most = kept, found = s;
    }
    return found;
  }

  // The bytes of inputs, of outputs that take over no input, and of temporaries.
  int64_t bound_bytes() const { return plan_.planned_memory_bytes() + most_alive(); }

  void leave(int s) {
    for (auto& members : classes_) std::erase_if(members, [&](const Joinable& m) { return m.step == s; });
  }

  // Replaces each group by one step, at the position of its last step.
  void rewrite() {
    std::map<int, const std::vector<const Joinable*>*> at;
    for (const auto& group : groups_) at[group.back()->step] = &group;
    std::vector<PlanStep> steps;
    for (int s = 0; s < count(); ++s) {
      if (const auto found = at.find(s); found != at.end())
        steps.push_back(joined(*found->second));
      else if (position(s) == s)
        steps.push_back(std::move(plan_.steps[static_cast<size_t>(s)]));
    }
    plan_.steps = std::move(steps);
  }

  PlanStep joined(const std::vector<const Joinable*>& group) const {
    PlanStep all = step(group.front()->step);
    all.loops.clear(), all.buffers.clear(), all.reads.clear(), all.writes.clear(), all.parts.clear();
    all.after.clear();
    all.flops = all.bytes = 0;
    bool only_updates = true;
    std::map<std::pair<int, int64_t>, int> numbers;  // of buffers, which the loops share
    for (const Joinable* m : group) {
      const PlanStep& one = step(m->step);
      LoopProgram program = m->loop.program;
      for (LoopOperand& o : program.operands) {
        const int buffer = m->loop.buffers[static_cast<size_t>(o.buffer)];
        const BufferRef& ref = one.buffers[static_cast<size_t>(buffer)];
        const auto [it, fresh] =
            numbers.emplace(std::pair(ref.value, ref.byte_offset), static_cast<int>(all.buffers.size()));
        if (fresh) all.buffers.push_back(ref);
        o.buffer = it->second;
      }
      const auto in_place = std::ranges::count_if(program.stores, [&](const LoopStore& store) {
        const int buffer = program.operands[static_cast<size_t>(store.operand)].buffer;
        const PlanValue& written = value(all.buffers[static_cast<size_t>(buffer)].value);
        return written.kind == PlanValue::Kind::output && written.in_place_of >= 0;
      });
      all.updated += static_cast<int>(in_place);
      only_updates &= in_place > 0;
      all.loops.push_back(std::move(program));
      add_new(all.reads, one.reads);
      add_new(all.writes, one.writes);
      add_new(all.parts, one.parts);
      add_new(all.after, one.after);
      all.flops += one.flops;
      all.bytes += one.bytes;
    }
    if (!only_updates) all.updated = 0;
    for (LoopProgram& program : all.loops) program.buffers = static_cast<int>(all.buffers.size());
    return all;
  }

  Plan& plan_;
  Device device_;
  int64_t max_buffers_;
  std::vector<int> latest_;    // for each step: the latest position where it may run
  std::vector<int> position_;  // for each step: where it runs; in a group, at the group's last step
  std::vector<std::vector<Joinable>> classes_;
  std::vector<std::vector<const Joinable*>> groups_;
};

}  // namespace

void join_loops(Plan& plan) {
  for (const Device device : plan.devices)
    if (const int64_t buffers = backend_of(device).most_joined_buffers(device.index); buffers > 0)
      LoopJoiner(plan, device, buffers).run();
}

}  // namespace athanor
