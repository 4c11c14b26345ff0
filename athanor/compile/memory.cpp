// Memory: the order of steps, updates in place, and each temporary's place in the arena.
#include <algorithm>
#include <map>
#include <set>

#include "athanor/compile/plan.h"

namespace athanor {
namespace {

constexpr int64_t alignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
int64_t size_of_value(const PlanValue& value) {
  return aligned(std::max<int64_t>(1, static_cast<int64_t>(value.type.bytes())));
}

class MemoryPlanner {
 public:
  MemoryPlanner(Plan& plan, const CompileOptions& options)
      : plan_(plan), in_place_(options.enabled(Pass::inplace)) {}

  void order(const std::vector<bool>& donated) {
    if (in_place_) pair_outputs(donated);
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

  // A donated input can become an output if a loop reads and writes both element for element. An output takes
  // an input that it is computed from, and those with the least choice take theirs first: nearly always the
  // value of the same parameter, whose address then stays from step to step.
  void pair_outputs(const std::vector<bool>& donated) {
    std::set<int> taken;
    for (auto& s : plan_.steps) {
      if (s.kind == PlanStep::Kind::copy) pair_copied_back(s, donated, taken);
      if (s.loops.empty()) continue;
      struct Pairing {
        int out;
        std::vector<int> computed_from, others;
      };
      std::vector<Pairing> pairings;
      const auto sources = sources_of(s);
      for (int out : s.writes) {
        if (value(out).kind != PlanValue::Kind::output) continue;
        Pairing pairing{out, {}, {}};
        for (int in : s.reads) {
          const PlanValue& from = value(in);
          if (from.kind != PlanValue::Kind::input || !donated[static_cast<size_t>(from.binding)] ||
              from.type.bytes() != value(out).type.bytes() || !walks_alike(s, in, out))
            continue;
          (sources.at(out).contains(in) ? pairing.computed_from : pairing.others).push_back(in);
        }
        pairings.push_back(std::move(pairing));
      }
      std::ranges::stable_sort(pairings, {}, [](const Pairing& one) { return one.computed_from.size(); });
      for (const bool related : {true, false})
        for (const Pairing& one : pairings)
          for (int in : related ? one.computed_from : one.others)
            if (value(one.out).in_place_of < 0 && taken.insert(in).second) value(one.out).in_place_of = in;
    }
  }

  // The values that each value is computed from which a step of loops writes.
  static std::map<int, std::set<int>> sources_of(const PlanStep& s) {
    std::map<int, std::set<int>> all;
    for (const int out : s.writes) all[out];
    for (const LoopProgram& p : s.loops) {
      const auto value_of = [&](int operand) {
        return s.buffers[static_cast<size_t>(p.operands[static_cast<size_t>(operand)].buffer)].value;
      };
      std::vector<std::set<int>> registers;
      const auto run = [&](const std::vector<LoopStep>& steps) {
        for (const LoopStep& step : steps) {
          std::set<int> from;
          if (step.kind == LoopStep::Kind::load) from.insert(value_of(step.operand));
          for (const int r : {step.a, step.b, step.c})
            if (r >= 0)
              from.insert(registers[static_cast<size_t>(r)].begin(), registers[static_cast<size_t>(r)].end());
          registers.push_back(std::move(from));
        }
      };
      run(p.body);
      for (const LoopReduction& reduction : p.reductions)
        registers.push_back(registers[static_cast<size_t>(reduction.source)]);
      run(p.epilogue);
      for (const auto* stores : {&p.stores, &p.epilogue_stores})
        for (const LoopStore& store : *stores)
          all[value_of(store.operand)].merge(std::set<int>(registers[static_cast<size_t>(store.source)]));
    }
    return all;
  }

  // State that lies on another device goes there, is updated, and comes back to its place.
  void pair_copied_back(const PlanStep& back, const std::vector<bool>& donated, std::set<int>& taken) {
    const int out = back.writes.front(), updated = back.reads.front();
    if (value(out).kind != PlanValue::Kind::output) return;
    for (const PlanStep& update : plan_.steps) {
      if (std::ranges::count(update.writes, updated) == 0) continue;
      for (const PlanStep& there : plan_.steps) {
        if (there.kind != PlanStep::Kind::copy || std::ranges::count(update.reads, there.writes.front()) == 0)
          continue;
        const int in = there.reads.front();
        if (value(in).kind != PlanValue::Kind::input || !donated[static_cast<size_t>(value(in).binding)] ||
            value(in).type != value(out).type || taken.contains(in))
          continue;
        value(out).in_place_of = in;
        taken.insert(in);
        return;
      }
    }
  }

  // Whether every loop of a step that reads `in` also writes `out`, and walks both in the same way. The loops
  // of a step run at the same time.
  static bool walks_alike(const PlanStep& s, int in, int out) {
    return std::ranges::all_of(s.loops, [&](const LoopProgram& p) { return walks_alike(s, p, in, out); });
  }

  // Whether the loop reads an element of `in` only when it writes the same element of `out`. Both must happen
  // in the same part, body or epilogue, and the other part must not read `in`.
  static bool walks_alike(const PlanStep& s, const LoopProgram& p, int in, int out) {
    const auto value_of = [&](int operand) {
      return s.buffers[static_cast<size_t>(p.operands[static_cast<size_t>(operand)].buffer)].value;
    };
    const auto writes = [&](const LoopStore& store) { return value_of(store.operand) == out; };
    auto store = std::find_if(p.stores.begin(), p.stores.end(), writes);
    const bool in_epilogue = store == p.stores.end();
    if (in_epilogue) store = std::find_if(p.epilogue_stores.begin(), p.epilogue_stores.end(), writes);
    const bool written_here = !in_epilogue || store != p.epilogue_stores.end();
    const auto reads_alike = [&](const std::vector<LoopStep>& steps, bool with_store) {
      return std::all_of(steps.begin(), steps.end(), [&](const LoopStep& step) {
        return step.kind != LoopStep::Kind::load || value_of(step.operand) != in ||
               (written_here && with_store &&
                same_elements(p, p.operands[static_cast<size_t>(step.operand)],
                              p.operands[static_cast<size_t>(store->operand)], in_epilogue));
      });
    };
    return reads_alike(p.body, !in_epilogue) && reads_alike(p.epilogue, in_epilogue);
  }

  // Whether two operands mean the same bytes at every index. In the epilogue, strides of reduced dimensions
  // do not count.
  static bool same_elements(const LoopProgram& p, const LoopOperand& a, const LoopOperand& b,
                            bool in_epilogue) {
    if (a.dtype != b.dtype || a.offset != b.offset) return false;
    for (size_t d = 0; d < p.space.size(); ++d)
      if (!(in_epilogue && p.reduced[d]) && a.strides[d] != b.strides[d]) return false;
    return true;
  }

  // Kahn's algorithm. Of the steps that are ready, it takes one that frees more memory than it takes, else
  // the oldest. A step that overwrites an input waits for the input's other readers.
  void schedule() {
    const int n = static_cast<int>(plan_.steps.size());
    std::vector<int> writer(plan_.values.size(), -1), uses(plan_.values.size(), 0),
        waiting(static_cast<size_t>(n), 0);
    std::vector<std::set<int>> successors(static_cast<size_t>(n));
    for (int s = 0; s < n; ++s)
      for (int v : step(s).writes) writer[static_cast<size_t>(v)] = s;
    const auto depend = [&](int later, int earlier) {
      if (earlier >= 0 && earlier != later && successors[static_cast<size_t>(earlier)].insert(later).second)
        ++waiting[static_cast<size_t>(later)];
    };
    for (int s = 0; s < n; ++s) {
      for (int v : step(s).reads) depend(s, writer[static_cast<size_t>(v)]), ++uses[static_cast<size_t>(v)];
      for (int v : step(s).after) depend(s, writer[static_cast<size_t>(v)]);
    }
    // Steps are still in topological order here. The update can wait for readers of the old value that come
    // before it. A reader that comes after it may depend on the update; then there is no update in place.
    for (int s = 0; s < n; ++s)
      for (int out : step(s).writes) {
        const int in = value(out).in_place_of;
        if (in < 0) continue;
        std::vector<int> readers;
        for (int r = 0; r < n; ++r)
          if (r != s && std::find(step(r).reads.begin(), step(r).reads.end(), in) != step(r).reads.end())
            readers.push_back(r);
        if (reaches(successors, s, readers))
          value(out).in_place_of = -1;
        else
          for (int r : readers) depend(s, r);
      }
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
      std::set<int> taken;
      for (int out : step(s).writes) {
        if (!is_temporary(out)) continue;
        for (int in : step(s).reads) {
          if (!is_temporary(in) || value(in).last_step != s || taken.contains(in)) continue;
          if (value(in).type.bytes() != value(out).type.bytes() || !walks_alike(step(s), in, out)) continue;
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

  // From when a value's memory must be free. So that a copy waits for nothing but its source, nobody may have
  // used the memory that it goes to since the last step of that device which the source waits for.
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
        value.in_place_of < 0) {  // else another one's memory, which lives as long
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
