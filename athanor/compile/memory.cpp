// Memory: the order of steps, updates in place, and each temporary's offset in the arena.
#include <algorithm>
#include <map>
#include <set>

#include "athanor/compile/in_place.h"
#include "athanor/compile/plan.h"

namespace athanor {
namespace {

constexpr int64_t alignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
int64_t size_of_value(const PlanValue& value) { return aligned(std::max<int64_t>(1, value.bytes())); }

class MemoryPlanner {
 public:
  MemoryPlanner(Plan& plan, const CompileOptions& options)
      : plan_(plan), in_place_(options.enabled(Pass::inplace)) {}

  void order(const std::vector<bool>& donated) {
    if (in_place_) {
      for (const LateUpdate& late : pair_outputs(plan_, donated)) write_later(plan_, late);
      for (const LateUpdate& late : needed_steps().late)
        if (can_write_later(plan_, late)) write_later(plan_, late);
    }
    schedule();
  }

  void place_all() {
    plan_.arenas.clear();
    for (auto& v : plan_.values) {
      v.first_step = v.last_step = -1;
      if (v.kind == PlanValue::Kind::temporary) v.in_place_of = -1, v.offset = -1;
    }
    find_lifetimes();
    settle_pairs();
    if (in_place_) pair_temporaries();
    place();
  }

 private:
  PlanValue& value(int v) { return plan_.values[static_cast<size_t>(v)]; }
  PlanStep& step(int s) { return plan_.steps[static_cast<size_t>(s)]; }

  // The order that steps must keep.
  struct Needed {
    std::vector<std::set<int>> successors;  // for each step: the steps that must come after it
    std::vector<int> waiting;               // for each step: the number of steps that must come before it
    std::vector<LateUpdate> late;           // updates that would overwrite a value which a later step needs
  };

  // A step that overwrites an input waits for the input's other readers.
  Needed needed_steps() {
    const int n = static_cast<int>(plan_.steps.size());
    std::vector<int> writer(plan_.values.size(), -1);
    Needed needed{
        std::vector<std::set<int>>(static_cast<size_t>(n)), std::vector<int>(static_cast<size_t>(n), 0), {}};
    for (int s = 0; s < n; ++s)
      for (int v : step(s).writes) writer[static_cast<size_t>(v)] = s;
    const auto depend = [&](int later, int earlier) {
      if (earlier >= 0 && earlier != later &&
          needed.successors[static_cast<size_t>(earlier)].insert(later).second)
        ++needed.waiting[static_cast<size_t>(later)];
    };
    for (int s = 0; s < n; ++s)
      for (const auto* list : {&step(s).reads, &step(s).after})
        for (int v : *list) depend(s, writer[static_cast<size_t>(v)]);
    // An update in place waits for the other readers of the old value. If one of them depends on the update,
    // it cannot be in place.
    for (int s = 0; s < n; ++s)
      for (int out : step(s).writes) {
        const int in = value(out).in_place_of;
        if (in < 0) continue;
        std::vector<int> readers;
        for (int r = 0; r < n; ++r)
          if (r != s && std::find(step(r).reads.begin(), step(r).reads.end(), in) != step(r).reads.end())
            readers.push_back(r);
        if (reaches(needed.successors, s, readers)) {
          value(out).in_place_of = -1;
          needed.late.push_back({s, in, out});
        } else {
          for (int r : readers) depend(s, r);
        }
      }
    return needed;
  }

  // Kahn's algorithm. Of the steps that are ready, it takes the one that frees most memory, or the oldest if
  // none frees more than it takes.
  void schedule() {
    const int n = static_cast<int>(plan_.steps.size());
    auto [successors, waiting, late] = needed_steps();
    std::vector<int> uses(plan_.values.size(), 0);
    for (int s = 0; s < n; ++s)
      for (int v : step(s).reads) ++uses[static_cast<size_t>(v)];
    std::set<int> ready;
    for (int s = 0; s < n; ++s)
      if (waiting[static_cast<size_t>(s)] == 0) ready.insert(s);
    std::vector<PlanStep> ordered;
    while (!ready.empty()) {
      int chosen = *ready.begin();
      int64_t most = 0;
      for (int s : ready) {
        const int64_t freed = freed_by(s, uses);
        if (freed > most) most = freed, chosen = s;
      }
      ready.erase(chosen);
      for (int v : step(chosen).reads) --uses[static_cast<size_t>(v)];
      for (int later : successors[static_cast<size_t>(chosen)])
        if (--waiting[static_cast<size_t>(later)] == 0) ready.insert(later);
      ordered.push_back(std::move(step(chosen)));
    }
    plan_.steps = std::move(ordered);
  }

  static bool reaches(const std::vector<std::set<int>>& successors, int from,
                      const std::vector<int>& targets) {
    std::vector<int> stack{from};
    std::set<int> seen;
    while (!stack.empty()) {
      const int s = stack.back();
      stack.pop_back();
      if (!seen.insert(s).second) continue;
      if (s != from && std::find(targets.begin(), targets.end(), s) != targets.end()) return true;
      for (int later : successors[static_cast<size_t>(s)]) stack.push_back(later);
    }
    return false;
  }

  // The bytes of temporaries that end with a step, minus those that begin with it.
  int64_t freed_by(int s, const std::vector<int>& uses) {
    int64_t freed = 0;
    for (int v : step(s).reads)
      if (value(v).kind == PlanValue::Kind::temporary && uses[static_cast<size_t>(v)] == 1)
        freed += size_of_value(value(v));
    for (int v : step(s).writes)
      if (value(v).in_place_of < 0) freed -= size_of_value(value(v));
    return freed;
  }

  void find_lifetimes() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s)
      for (const auto* list : {&step(s).reads, &step(s).writes})
        for (int v : *list) {
          if (value(v).first_step < 0) value(v).first_step = s;
          value(v).last_step = s;
        }
  }

  // An update in place must be the input's last use.
  void settle_pairs() {
    for (auto& v : plan_.values)
      if (v.in_place_of >= 0 && value(v.in_place_of).last_step > v.first_step) v.in_place_of = -1;
  }

  // A loop may write its result over an operand that is not needed afterwards.
  void pair_temporaries() {
    const auto is_temporary = [&](int v) { return value(v).kind == PlanValue::Kind::temporary; };
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      if (step(s).loops.empty()) continue;
      const std::vector<Walk> walks = walks_of(step(s));
      std::set<int> taken;
      for (int out : step(s).writes) {
        if (!is_temporary(out)) continue;
        for (int in : step(s).reads) {
          if (!is_temporary(in) || value(in).last_step != s || taken.contains(in)) continue;
          if (value(in).bytes() != value(out).bytes() || !walks_alike(step(s), walks, in, out)) continue;
          value(out).in_place_of = in;
          taken.insert(in);
          break;
        }
      }
    }
  }
  // The first of a chain of temporaries that share their memory.
  int owner(int v) {
    while (value(v).kind == PlanValue::Kind::temporary && value(v).in_place_of >= 0) v = value(v).in_place_of;
    return v;
  }

  struct Block {
    Device device;
    int first, last;
    int64_t bytes, offset = -1;
    int value = -1, step = -1;  // a temporary, or a step's scratch
  };

  // The first step at which a value's memory must be free. A copy should wait for nothing but its source.
  // So no step of the target device may use the copy's memory after the last one that the source waits for.
  int needed_from(int v) {
    const PlanStep& copy = step(value(v).first_step);
    if (copy.kind != PlanStep::Kind::copy || copy.writes.front() != v) return value(v).first_step;
    const auto is_input = [&](int of) { return value(of).kind == PlanValue::Kind::input; };
    if (is_input(copy.reads.front())) return value(v).first_step;  // delay_copies
    std::vector<bool> awaited(plan_.steps.size(), false);
    const int written = value(copy.reads.front()).first_step;
    awaited[static_cast<size_t>(written)] = true;
    for (int s = written; s >= 0; --s) {
      if (!awaited[static_cast<size_t>(s)]) continue;
      if (step(s).kind != PlanStep::Kind::copy && step(s).device == value(v).type.device) return s + 1;
      for (int read : step(s).reads)
        if (!is_input(read)) awaited[static_cast<size_t>(value(read).first_step)] = true;
    }
    return 0;
  }

  // Places the largest block first, each at the lowest offset that is free for its whole life.
  void place() {
    std::vector<Block> blocks;
    for (int v = 0; v < static_cast<int>(plan_.values.size()); ++v)
      if (value(v).kind == PlanValue::Kind::temporary && value(v).first_step >= 0) {
        if (const int first = owner(v); first != v)
          value(first).last_step = std::max(value(first).last_step, value(v).last_step);
      }
    for (int v = 0; v < static_cast<int>(plan_.values.size()); ++v)
      if (value(v).kind == PlanValue::Kind::temporary && value(v).first_step >= 0 && owner(v) == v)
        blocks.push_back(
            {value(v).type.device, needed_from(v), value(v).last_step, size_of_value(value(v)), -1, v, -1});
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s)
      if (step(s).kernel.scratch_bytes > 0)
        blocks.push_back(
            {step(s).device, s, s, aligned(static_cast<int64_t>(step(s).kernel.scratch_bytes)), -1, -1, s});
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
    std::map<Device, std::vector<const Block*>> placed_on;
    for (auto& block : blocks) {
      int64_t& arena = arena_of(block.device);
      std::vector<const Block*>& placed = placed_on[block.device];
      if (in_place_) {
        int64_t offset = 0;
        for (const Block* other : placed) {  // sorted by offset
          if (other->last < block.first || other->first > block.last) continue;
          if (other->offset >= offset + block.bytes) break;
          offset = std::max(offset, other->offset + other->bytes);
        }
        block.offset = offset;
      } else {
        block.offset = arena;  // no reuse: every temporary has separate bytes
      }
      placed.insert(std::upper_bound(placed.begin(), placed.end(), &block,
                                     [](const Block* a, const Block* b) { return a->offset < b->offset; }),
                    &block);
      arena = std::max(arena, block.offset + block.bytes);
      if (block.value >= 0)
        value(block.value).offset = block.offset;
      else
        step(block.step).scratch_offset = block.offset;
    }
    for (int v = 0; v < static_cast<int>(plan_.values.size()); ++v)
      if (owner(v) != v) value(v).offset = value(owner(v)).offset;
  }

  int64_t& arena_of(Device device) {
    const auto found = std::ranges::find(plan_.arenas, device, &PlanArena::device);
    return found != plan_.arenas.end() ? found->bytes : plan_.arenas.emplace_back(PlanArena{device}).bytes;
  }

  Plan& plan_;
  bool in_place_;
};

}  // namespace

void order_steps(Plan& plan, const std::vector<bool>& donated, const CompileOptions& options) {
  MemoryPlanner(plan, options).order(donated);
}

void place_values(Plan& plan, const CompileOptions& options) { MemoryPlanner(plan, options).place_all(); }

size_t fullest_step(const Plan& plan, Device device) {
  std::vector<int64_t> taken(plan.steps.size() + 1, 0);  // at each step
  for (const PlanValue& value : plan.values)
    if (value.kind == PlanValue::Kind::temporary && value.type.device == device && value.first_step >= 0 &&
        value.in_place_of < 0) {  // other values share the memory of their first, which lives as long
      taken[static_cast<size_t>(value.first_step)] += size_of_value(value);
      taken[static_cast<size_t>(value.last_step) + 1] -= size_of_value(value);
    }
  for (size_t s = 1; s < taken.size(); ++s) taken[s] += taken[s - 1];
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (plan.steps[s].device == device) taken[s] += static_cast<int64_t>(plan.steps[s].kernel.scratch_bytes);
  taken.pop_back();
  return static_cast<size_t>(std::ranges::max_element(taken) - taken.begin());
}

}  // namespace athanor
