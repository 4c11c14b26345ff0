#include "athanor/compile/chain_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include "athanor/compile/canonical_loop.h"
#include "athanor/kernels/row_chain.h"

namespace athanor {
namespace {

constexpr int most_steps = 24;  // to compute a value again

class ChainValues {
 public:
  ChainValues(const Plan& plan, PlanStep& chain, const StepLinks& links)
      : plan_(plan), chain_(chain), links_(links) {}

  void run() {
    const PlanStep before = chain_;
    chain_.loops = row_chain(before.loops).value().loops;
    bool any = false;
    for (size_t l = 0; l < chain_.loops.size(); ++l)
      for (size_t s = 0; s < loop(l).stores.size();)
        if (take(l, loop(l).stores[s])) {
          loop(l).stores.erase(loop(l).stores.begin() + static_cast<std::ptrdiff_t>(s));
          any = true;
        } else {
          ++s;
        }
    for (LoopProgram& p : chain_.loops) {
      CanonicalLoop needed = canonical(p);
      for (LoopOperand& o : needed.program.operands) o.buffer = needed.buffers[static_cast<size_t>(o.buffer)];
      p = std::move(needed.program);
    }
    std::erase_if(chain_.loops,
                  [](const LoopProgram& p) { return p.stores.empty() && p.reductions.empty(); });
    drop_unused_buffers();
    chain_.chained = chain_.loops.size() > 1;
    if (!any || !backend_of(chain_.device).takes_row_chain(chain_.device.index, chain_.loops))
      chain_ = before;
  }

 private:
  LoopProgram& loop(size_t l) { return chain_.loops[l]; }

  /// Whether the later loops compute what this store stores; then they do.
  bool take(size_t l, const LoopStore& store) {
    const LoopOperand to = loop(l).operands[static_cast<size_t>(store.operand)];
    const int v = chain_.buffers[static_cast<size_t>(to.buffer)].value;
    const PlanValue& value = plan_.values[static_cast<size_t>(v)];
    const LoopStep& source = loop(l).body[static_cast<size_t>(store.source)];
    if (value.kind != PlanValue::Kind::temporary || !links_.readers[static_cast<size_t>(v)].empty() ||
        source.type != to.dtype || steps_of(loop(l), store.source) > most_steps)
      return false;
    // Epilogues read no full-size values of a chain (row_chain.h).
    for (size_t b = l + 1; b < chain_.loops.size(); ++b)
      substitute(loop(l), store.source, loop(b), to.buffer);
    return true;
  }

  /// The steps that compute a register; more than most_steps if it has random numbers.
  static int steps_of(const LoopProgram& p, int of) {
    int count = 0;
    std::vector<int> registers{of};
    std::vector<bool> seen(p.body.size(), false);
    while (!registers.empty() && count <= most_steps) {
      const int r = registers.back();
      registers.pop_back();
      if (r < 0 || seen[static_cast<size_t>(r)]) continue;
      seen[static_cast<size_t>(r)] = true;
      const LoopStep& s = p.body[static_cast<size_t>(r)];
      if (s.kind == LoopStep::Kind::primitive && s.prim == Prim::random_uniform) return most_steps + 1;
      if (s.kind == LoopStep::Kind::primitive || s.kind == LoopStep::Kind::load) ++count;
      for (const int operand : {s.a, s.b, s.c}) registers.push_back(operand);
    }
    return count;
  }

  /// Replaces loads of the buffer by the steps that compute the register.
  static void substitute(const LoopProgram& from, int source, LoopProgram& p, int buffer) {
    const auto reads = [&](const LoopStep& s) {
      return s.kind == LoopStep::Kind::load && p.operands[static_cast<size_t>(s.operand)].buffer == buffer;
    };
    if (std::ranges::none_of(p.body, reads)) return;
    const auto old_size = static_cast<int>(p.body.size());
    std::vector<LoopStep> body;
    std::map<int, int> copied;
    const auto copy = [&](const auto& self, int r) -> int {
      if (r < 0) return r;
      if (const auto found = copied.find(r); found != copied.end()) return found->second;
      LoopStep s = from.body[static_cast<size_t>(r)];
      for (int* one : {&s.a, &s.b, &s.c}) *one = self(self, *one);
      if (s.kind == LoopStep::Kind::load) {
        p.operands.push_back(from.operands[static_cast<size_t>(s.operand)]);
        s.operand = static_cast<int>(p.operands.size()) - 1;
      }
      body.push_back(std::move(s));
      return copied[r] = static_cast<int>(body.size()) - 1;
    };
    const int computed = copy(copy, source);
    std::vector<int> number;
    for (LoopStep s : p.body) {
      if (reads(s)) {
        number.push_back(computed);
        continue;
      }
      for (int* one : {&s.a, &s.b, &s.c})
        if (*one >= 0) *one = number[static_cast<size_t>(*one)];
      body.push_back(std::move(s));
      number.push_back(static_cast<int>(body.size()) - 1);
    }
    const int more = static_cast<int>(body.size()) - old_size;
    const auto moved = [&](int& r) {
      if (r >= 0) r = r < old_size ? number[static_cast<size_t>(r)] : r + more;
    };
    p.body = std::move(body);
    for (LoopStore& s : p.stores) moved(s.source);
    for (LoopReduction& r : p.reductions) moved(r.source);
    for (LoopStep& s : p.epilogue)
      for (int* one : {&s.a, &s.b, &s.c}) moved(*one);
    for (LoopStore& s : p.epilogue_stores) moved(s.source);
  }

  void drop_unused_buffers() {
    std::vector<int> number(chain_.buffers.size(), -1);
    std::vector<BufferRef> used;
    for (LoopProgram& p : chain_.loops)
      for (LoopOperand& o : p.operands) {
        int& to = number[static_cast<size_t>(o.buffer)];
        if (to < 0)
          to = static_cast<int>(used.size()), used.push_back(chain_.buffers[static_cast<size_t>(o.buffer)]);
        o.buffer = to;
      }
    for (LoopProgram& p : chain_.loops) p.buffers = static_cast<int>(used.size());
    const auto unused = [&](int v) { return std::ranges::count(used, v, &BufferRef::value) == 0; };
    std::erase_if(chain_.writes, unused);
    std::erase_if(chain_.reads, unused);
    chain_.buffers = std::move(used);
  }

  const Plan& plan_;
  PlanStep& chain_;
  const StepLinks& links_;
};

}  // namespace

void recompute_in_chain(Plan& plan, PlanStep& chain, const StepLinks& links) {
  ChainValues(plan, chain, links).run();
}

}  // namespace athanor
