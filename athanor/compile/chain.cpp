// Chains: loops over the same rows run one after the other in one launch, row by row. What the first of them
// reads or writes of a row is still in a cache when the next one reads it.
#include <algorithm>
#include <set>
#include <utility>

#include "athanor/compile/chain_values.h"
#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"
#include "athanor/kernels/row_chain.h"

namespace athanor {
namespace {

constexpr int most_inner_values = 2;

class RowChainer {
 public:
  explicit RowChainer(Plan& plan) : plan_(plan), links_(plan), removed_(plan.steps.size(), false) {}

  void run() {
    bool any = false;
    for (bool changed = true; changed; any |= changed) {
      changed = false;
      for (int s = 0; s < count(); ++s) changed |= is_candidate(s) && try_step(s);
    }
    if (!any) return;
    for (int s = 0; s < count(); ++s)
      if (!removed_[static_cast<size_t>(s)] && step(s).chained) {
        // On CPUs each step of a loop reads and writes caches anyway.
        if (step(s).device != Device{}) recompute_in_chain(plan_, step(s), links_);
        count(step(s));
      }
    order_by_links(plan_, links_, removed_);
  }

 private:
  int count() const { return static_cast<int>(plan_.steps.size()); }
  PlanStep& step(int s) { return plan_.steps[static_cast<size_t>(s)]; }
  const PlanStep& step(int s) const { return plan_.steps[static_cast<size_t>(s)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  bool is_candidate(int s) const {
    const PlanStep& one = step(s);
    return !removed_[static_cast<size_t>(s)] && one.kind == PlanStep::Kind::launch && !one.loops.empty() &&
           !is_in_segment(plan_, one);
  }

  /// Tries to join the step with others that write what it reads, or that read the same large values: with
  /// the last ones first.
  bool try_step(int s) {
    std::set<int, std::greater<>> others;
    const int64_t elements = step(s).loops.front().iterations();
    for (const int v : step(s).reads) {
      if (const int w = links_.writer[static_cast<size_t>(v)]; w >= 0) others.insert(w);
      if (value(v).type.shape.size() >= elements)
        for (const int reader : links_.readers[static_cast<size_t>(v)]) others.insert(reader);
    }
    others.erase(s);
    return std::ranges::any_of(others, [&](int other) {
      if (!is_candidate(other) || step(other).device != step(s).device ||
          step(other).loops.front().iterations() != elements || refused_.contains(std::minmax(s, other)))
        return false;
      if (join(s, other)) return true;
      refused_.insert(std::minmax(s, other));
      return false;
    });
  }

  /// Makes a chain of two steps that do not need each other through others.
  bool join(int s, int other) {
    if (links_.reaches_through_others(plan_, other, s) || links_.reaches_through_others(plan_, s, other))
      return false;
    const bool before = reads_from(s, other), behind = reads_from(other, s);
    return before || (!behind && other < s) ? take(other, s) : take(s, other);
  }

  /// Whether a step reads results of the other, or must come after them.
  bool reads_from(int reader, int writer) const {
    return std::ranges::any_of(
        step(writer).writes, [&](int v) { return links_.readers[static_cast<size_t>(v)].contains(reader); });
  }

  /// Appends the second step's loops to the first's, if the device has a kernel for the chain.
  bool take(int first, int second) {
    std::vector<LoopProgram> loops = step(first).loops;
    std::vector<BufferRef> buffers = step(first).buffers;
    std::vector<int> numbers;
    for (const BufferRef& ref : step(second).buffers) {
      const auto same = std::ranges::find_if(buffers, [&](const BufferRef& other) {
        return other.value == ref.value && other.byte_offset == ref.byte_offset;
      });
      numbers.push_back(static_cast<int>(same - buffers.begin()));
      if (same == buffers.end()) buffers.push_back(ref);
    }
    for (LoopProgram program : step(second).loops) {
      for (LoopOperand& o : program.operands) o.buffer = numbers[static_cast<size_t>(o.buffer)];
      loops.push_back(std::move(program));
    }
    for (LoopProgram& program : loops) program.buffers = static_cast<int>(buffers.size());
    // A value that is written has one place among the buffers.
    const auto is_split = [&](int v) { return std::ranges::count(buffers, v, &BufferRef::value) > 1; };
    const PlanStep& a = step(first);
    if (std::ranges::any_of(a.writes, is_split) || std::ranges::any_of(step(second).writes, is_split) ||
        inner_values(first, second) > most_inner_values ||
        !backend_of(a.device).takes_row_chain(a.device.index, loops))
      return false;
    merge(first, second);
    step(first).loops = std::move(loops);
    step(first).buffers = std::move(buffers);
    return true;
  }

  /// How many full-size temporaries only loops of both steps would read: all of them are in memory at one
  /// time.
  int inner_values(int first, int second) const {
    const int64_t elements = step(first).loops.front().iterations();
    const auto is_inner = [&](int v) {
      return value(v).kind == PlanValue::Kind::temporary && value(v).type.shape.size() >= elements &&
             std::ranges::all_of(links_.readers[static_cast<size_t>(v)],
                                 [&](int reader) { return reader == first || reader == second; });
    };
    return static_cast<int>(std::ranges::count_if(step(first).writes, is_inner) +
                            std::ranges::count_if(step(second).writes, is_inner));
  }

  void merge(int first, int second) {
    PlanStep &a = step(first), &b = step(second);
    for (const auto* list : {&b.reads, &b.after})
      for (const int v : *list) {
        links_.readers[static_cast<size_t>(v)].erase(second);
        if (std::ranges::count(a.writes, v) == 0) links_.readers[static_cast<size_t>(v)].insert(first);
      }
    for (const int v : b.writes) links_.writer[static_cast<size_t>(v)] = first;
    for (const int v : a.writes) links_.readers[static_cast<size_t>(v)].erase(second);
    std::erase_if(b.reads, [&](int v) { return std::ranges::count(a.writes, v) > 0; });
    std::erase_if(b.after, [&](int v) { return std::ranges::count(a.writes, v) > 0; });
    add_new(a.reads, b.reads);
    add_new(a.writes, b.writes);
    add_new(a.after, b.after);
    add_new(a.parts, b.parts);
    a.ops.insert(a.ops.end(), b.ops.begin(), b.ops.end());
    a.where = b.where;
    a.chained = true;
    removed_[static_cast<size_t>(second)] = true;
    std::erase_if(refused_, [&](const auto& pair) { return pair.first == first || pair.second == first; });
  }

  /// Each value is moved once, as much of it as one of the loops moves.
  static void count(PlanStep& chain) {
    chain.flops = chain.bytes = 0;
    for (const LoopProgram& program : chain.loops) chain.flops += program.flops();
    for (size_t b = 0; b < chain.buffers.size(); ++b) {
      int64_t most = 0;
      for (LoopProgram program : chain.loops) {
        std::erase_if(program.operands,
                      [&](const LoopOperand& o) { return o.buffer != static_cast<int>(b); });
        program.operands.resize(std::min<size_t>(program.operands.size(), 1));
        most = std::max(most, program.bytes());
      }
      chain.bytes += most;
    }
  }

  Plan& plan_;
  StepLinks links_;
  std::vector<bool> removed_;              // steps that have joined others
  std::set<std::pair<int, int>> refused_;  // steps that form no chain, the smaller number first
};

}  // namespace

void chain_rows(Plan& plan) { RowChainer(plan).run(); }

}  // namespace athanor
