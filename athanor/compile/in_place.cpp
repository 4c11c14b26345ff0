// Chooses which outputs take over the memory of donated inputs.
#include "athanor/compile/in_place.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "athanor/kernels/copying_loop.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/row_chain.h"

namespace athanor {
namespace {

// Whether two operands are the same bytes at every index. In the epilogue, strides of reduced dimensions do
// not count.
bool same_elements(const LoopProgram& p, const LoopOperand& a, const LoopOperand& b, bool in_epilogue) {
  if (a.dtype != b.dtype || a.offset != b.offset) return false;
  for (size_t d = 0; d < p.space.size(); ++d)
    if (!(in_epilogue && p.reduced[d]) && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Whether the loop reads an element of `in` only when it writes the same element of `out`. Both must happen
// in the same part, body or epilogue, and the other part must not read `in`.
bool walks_alike(const Walk& walk, int in, int out) {
  const LoopProgram& p = walk.program;
  const auto writes = [&](const LoopStore& store) { return walk.value_of(store.operand) == out; };
  auto store = std::find_if(p.stores.begin(), p.stores.end(), writes);
  const bool in_epilogue = store == p.stores.end();
  if (in_epilogue) store = std::find_if(p.epilogue_stores.begin(), p.epilogue_stores.end(), writes);
  const bool written_here = !in_epilogue || store != p.epilogue_stores.end();
  const auto reads_alike = [&](const std::vector<LoopStep>& steps, bool with_store) {
    return std::all_of(steps.begin(), steps.end(), [&](const LoopStep& step) {
      return step.kind != LoopStep::Kind::load || walk.value_of(step.operand) != in ||
             (written_here && with_store &&
              same_elements(p, p.operands[static_cast<size_t>(step.operand)],
                            p.operands[static_cast<size_t>(store->operand)], in_epilogue));
    });
  };
  return reads_alike(p.body, !in_epilogue) && reads_alike(p.epilogue, in_epilogue);
}

// Whether a loop computes each element of `out` from the same element of `in`, in the same part.
bool computes_from_same(const Walk& walk, int in, int out) {
  const LoopProgram& p = walk.program;
  const auto computes = [&](const std::vector<LoopStep>& steps, size_t first, const LoopStore& store,
                            bool in_epilogue) {
    std::vector<int> registers{store.source};
    std::vector<bool> seen(steps.size(), false);
    while (!registers.empty()) {
      const int r = registers.back() - static_cast<int>(first);
      registers.pop_back();
      if (r < 0 || r >= static_cast<int>(steps.size()) || seen[static_cast<size_t>(r)])
        continue;  // no register of this part, or seen before
      seen[static_cast<size_t>(r)] = true;
      const LoopStep& step = steps[static_cast<size_t>(r)];
      if (step.kind == LoopStep::Kind::load && walk.value_of(step.operand) == in &&
          same_elements(p, p.operands[static_cast<size_t>(step.operand)],
                        p.operands[static_cast<size_t>(store.operand)], in_epilogue))
        return true;
      registers.insert(registers.end(), {step.a, step.b, step.c});
    }
    return false;
  };
  const auto writes = [&](const LoopStore& store) { return walk.value_of(store.operand) == out; };
  return std::ranges::any_of(
             p.stores, [&](const LoopStore& e) { return writes(e) && computes(p.body, 0, e, false); }) ||
         std::ranges::any_of(p.epilogue_stores, [&](const LoopStore& e) {
           return writes(e) && computes(p.epilogue, p.body.size() + p.reductions.size(), e, true);
         });
}

// For each value that a step of loops writes: the values that it is computed from.
std::map<int, std::set<int>> sources_of(const PlanStep& s, const std::vector<Walk>& walks) {
  std::map<int, std::set<int>> all;
  for (const int out : s.writes) all[out];
  for (const Walk& walk : walks) {
    const LoopProgram& p = walk.program;
    std::vector<std::set<int>> registers;
    const auto run = [&](const std::vector<LoopStep>& steps) {
      for (const LoopStep& step : steps) {
        std::set<int> from;
        if (step.kind == LoopStep::Kind::load) from.insert(walk.value_of(step.operand));
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
        all[walk.value_of(store.operand)].merge(std::set<int>(registers[static_cast<size_t>(store.source)]));
  }
  return all;
}

class OutputPairing {
 public:
  OutputPairing(Plan& plan, const std::vector<bool>& donated) : plan_(plan), donated_(donated) {}

  // A donated input can become an output if a loop reads one and writes the other element for element. An
  // output prefers an input that it is computed from. Outputs with the fewest such inputs choose first. So a
  // parameter nearly always takes the memory of its old value, and its address stays from step to step.
  std::vector<LateUpdate> run() {
    std::set<int> late;
    std::vector<LateUpdate> all;
    for (size_t n = 0; n < plan_.steps.size(); ++n) {
      const PlanStep& s = plan_.steps[n];
      if (s.kind == PlanStep::Kind::copy) pair_copied_back(s);
      const std::vector<Walk> walks = walks_of(s);
      if (walks.empty()) continue;
      struct Pairing {
        int out;
        std::vector<int> computed_from, written_later, others;
      };
      std::vector<Pairing> pairings;
      const auto sources = sources_of(s, walks);
      for (int out : s.writes) {
        if (value(out).kind != PlanValue::Kind::output) continue;
        Pairing pairing{out, {}, {}, {}};
        for (int in : s.reads) {
          const PlanValue& from = value(in);
          if (from.kind != PlanValue::Kind::input || !donated_[static_cast<size_t>(from.binding)] ||
              from.type.bytes() != value(out).type.bytes())
            continue;
          const bool related = sources.at(out).contains(in);
          if (walks_alike(s, walks, in, out))
            (related ? pairing.computed_from : pairing.others).push_back(in);
          else if (can_write_later(plan_, {static_cast<int>(n), in, out}) &&
                   std::ranges::any_of(walks,
                                       [&](const Walk& walk) { return computes_from_same(walk, in, out); }))
            pairing.written_later.push_back(in);
        }
        pairings.push_back(std::move(pairing));
      }
      std::ranges::stable_sort(pairings, {}, [](const Pairing& one) {
        return std::pair(one.computed_from.size(), one.written_later.size());
      });
      for (const auto list : {&Pairing::computed_from, &Pairing::written_later, &Pairing::others})
        for (const Pairing& one : pairings)
          for (int in : one.*list) {
            if (value(one.out).in_place_of >= 0 || late.contains(one.out) || !taken_.insert(in).second)
              continue;
            if (list == &Pairing::written_later)
              late.insert(one.out), all.push_back({static_cast<int>(n), in, one.out});
            else
              value(one.out).in_place_of = in;
          }
    }
    return all;
  }

 private:
  PlanValue& value(int v) { return plan_.values[static_cast<size_t>(v)]; }

  // State that is kept on another device is copied from there, updated, and copied back to its old memory.
  void pair_copied_back(const PlanStep& back) {
    const int out = back.writes.front(), updated = back.reads.front();
    if (value(out).kind != PlanValue::Kind::output) return;
    for (const PlanStep& update : plan_.steps) {
      if (std::ranges::count(update.writes, updated) == 0) continue;
      for (const PlanStep& there : plan_.steps) {
        if (there.kind != PlanStep::Kind::copy || std::ranges::count(update.reads, there.writes.front()) == 0)
          continue;
        const int in = there.reads.front();
        if (value(in).kind != PlanValue::Kind::input || !donated_[static_cast<size_t>(value(in).binding)] ||
            value(in).type != value(out).type || taken_.contains(in))
          continue;
        value(out).in_place_of = in;
        taken_.insert(in);
        return;
      }
    }
  }

  Plan& plan_;
  const std::vector<bool>& donated_;
  std::set<int> taken_;  // inputs
};

LoopProgram copy_of(const TensorType& type) {
  return copying_loop(type.dtype, {type.shape.size()}, {1}, {1});
}

}  // namespace

/// Whether the prologue of a contraction reads the buffer.
static bool is_of_prologue(const PlanStep& s, size_t buffer) {
  return s.request && buffer < s.request->inputs.size() &&
         buffer >= s.request->inputs.size() - s.request->prologue_inputs();
}

std::vector<Walk> walks_of(const PlanStep& s) {
  std::vector<Walk> all;
  const auto add = [&](const LoopProgram& program, size_t first) {
    Walk& walk = all.emplace_back(Walk{program, {}, false});
    if (first > 0) walk.values.push_back(-1);  // a contraction's own result
    for (size_t b = first; b < s.buffers.size(); ++b)
      if (!is_of_prologue(s, b)) walk.values.push_back(s.buffers[b].value);
  };
  for (const LoopProgram& program : s.loops) add(program, 0);
  if (s.chained) {
    const std::vector<RowRole> roles = row_chain(s.loops).value().roles;
    for (size_t i = 0; i < all.size(); ++i) all[i].sums_rows = roles[i] == RowRole::columns;
  }
  if (s.request && s.request->has_epilogue()) add(s.request->epilogue, s.request->own_inputs());
  return all;
}

// The same for a chain. The ends of sums over rows run behind all else. So they may overwrite what the other
// loops read, but not what another of them reads. All items of a group compute the end of a row, and one
// stores it, so it may overwrite nothing.
static bool chain_walks_alike(const std::vector<Walk>& walks, int in, int out) {
  const auto is_written = [&](const Walk& w, const std::vector<LoopStore>& stores) {
    return std::ranges::any_of(stores, [&](const LoopStore& e) { return w.value_of(e.operand) == out; });
  };
  const auto end_reads = [&](const Walk& w) {
    return std::ranges::any_of(w.program.epilogue, [&](const LoopStep& step) {
      return step.kind == LoopStep::Kind::load && w.value_of(step.operand) == in;
    });
  };
  const auto writer =
      std::ranges::find_if(walks, [&](const Walk& w) { return is_written(w, w.program.epilogue_stores); });
  if (writer == walks.end())
    return std::ranges::all_of(walks, [&](const Walk& w) { return walks_alike(w, in, out); });
  if (!writer->sums_rows) return false;
  LoopProgram end = writer->program;
  end.body.clear(), end.stores.clear();
  return walks_alike(Walk{end, writer->values, true}, in, out) &&
         std::ranges::all_of(walks,
                             [&](const Walk& w) { return &w == &*writer || !w.sums_rows || !end_reads(w); });
}

// Whether every loop of a step that reads `in` also writes `out`, and walks both in the same way.
bool walks_alike(const PlanStep& s, const std::vector<Walk>& walks, int in, int out) {
  if (s.chained) return chain_walks_alike(walks, in, out);
  if (!s.request) return std::ranges::all_of(walks, [&](const Walk& w) { return walks_alike(w, in, out); });
  // A contraction's kernels may compute an element of the result twice, but compute each sum only once. So
  // only sums may be updated in place.
  const Walk& epilogue = walks.front();
  for (size_t b = 0; b < s.request->inputs.size(); ++b)
    if (s.buffers[b].value == in && (b < s.request->own_inputs() || is_of_prologue(s, b))) return false;
  return std::ranges::any_of(epilogue.program.epilogue_stores,
                             [&](const LoopStore& e) { return epilogue.value_of(e.operand) == out; }) &&
         walks_alike(epilogue, in, out);
}

std::vector<LateUpdate> pair_outputs(Plan& plan, const std::vector<bool>& donated) {
  return OutputPairing(plan, donated).run();
}

bool can_write_later(const Plan& plan, const LateUpdate& late) {
  constexpr int64_t small = 4096;  // bytes
  const PlanValue &in = plan.values[static_cast<size_t>(late.in)],
                  &out = plan.values[static_cast<size_t>(late.out)];
  return in.type == out.type && static_cast<int64_t>(out.type.bytes()) <= small && out.layout.block == 0 &&
         plan.steps[static_cast<size_t>(late.step)].kind == PlanStep::Kind::launch &&
         backend_of(out.type.device).most_joined_buffers(out.type.device.index) > 0;
}

void write_later(Plan& plan, const LateUpdate& late) {
  const auto value = [&](int v) -> PlanValue& { return plan.values[static_cast<size_t>(v)]; };
  const PlanValue result = value(late.out);
  const int kept = static_cast<int>(plan.values.size());
  plan.values.push_back(result);
  value(kept).kind = PlanValue::Kind::temporary;
  value(kept).binding = -1;
  for (PlanStep& s : plan.steps) {
    for (auto* list : {&s.reads, &s.writes, &s.after}) std::ranges::replace(*list, late.out, kept);
    for (BufferRef& ref : s.buffers)
      if (ref.value == late.out) ref.value = kept;
  }
  value(late.out).in_place_of = late.in;
  const PlanStep& from = plan.steps[static_cast<size_t>(late.step)];
  PlanStep copy;
  copy.queue = from.queue;
  copy.ops = {"copy"};
  copy.device = result.type.device;
  copy.loops = {copy_of(result.type)};
  copy.buffers = {{kept, 0}, {late.out, 0}};
  copy.reads = {kept};
  copy.writes = {late.out};
  copy.where = from.where;
  copy.parts = from.parts;
  copy.bytes = 2 * static_cast<int64_t>(result.type.bytes());
  plan.steps.push_back(std::move(copy));
}

}  // namespace athanor
