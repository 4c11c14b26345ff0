// A loop whose result only one contraction reads (a normalisation before a linear layer, say) becomes its
// prologue: the kernel may compute elements when it reads them, so that they are never in memory.
#include <algorithm>
#include <vector>

#include "athanor/compile/step_links.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/prologue.h"

namespace athanor {
namespace {

class PrologueAbsorber {
 public:
  explicit PrologueAbsorber(Plan& plan) : plan_(plan), absorbed_(plan.steps.size(), false), links_(plan) {}

  void run() {
    for (PlanStep& step : plan_.steps)
      if (step.request && step.request->with.empty()) take_any(step);
    std::vector<PlanStep> left;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (!absorbed_[s]) left.push_back(std::move(plan_.steps[s]));
    plan_.steps = std::move(left);
  }

 private:
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  void take_any(PlanStep& contraction) {
    if (contraction.kind != PlanStep::Kind::launch || is_in_segment(plan_, contraction)) return;
    const size_t own = contraction.request->own_inputs();
    for (size_t input = 0; input < own; ++input)
      if (const int s = loop_of(contraction, input); s >= 0 && take(contraction, input, s)) return;
  }

  /// The loop that only computes this input of the contraction; -1 if there is none.
  int loop_of(const PlanStep& contraction, size_t input) const {
    const BufferRef& ref = contraction.buffers[input];
    const PlanValue& computed = value(ref.value);
    const int s = links_.writer[static_cast<size_t>(ref.value)];
    const auto is_input = [&](const BufferRef& other) { return other.value == ref.value; };
    if (s < 0 || absorbed_[static_cast<size_t>(s)] || computed.kind != PlanValue::Kind::temporary ||
        computed.layout.block > 0 || ref.byte_offset != 0 ||
        links_.readers[static_cast<size_t>(ref.value)].size() != 1 ||
        std::ranges::count_if(contraction.buffers, is_input) != 1)
      return -1;
    const PlanStep& loop = plan_.steps[static_cast<size_t>(s)];
    if (loop.kind != PlanStep::Kind::launch || loop.loops.size() != 1 || loop.writes.size() != 1 ||
        loop.device != contraction.device || loop.again || is_in_segment(plan_, loop))
      return -1;
    const LoopProgram& program = loop.loops.front();
    if (!program.reductions.empty() || program.stores.size() != 1 ||
        program.body.size() > most_absorbed_steps || program.iterations() == 0 ||
        loop.buffers.size() > most_absorbed_inputs + 1)
      return -1;
    // Each element is stored once, and the whole value.
    const LoopOperand& stored = program.operands[static_cast<size_t>(program.stores[0].operand)];
    return stored.offset == 0 && program.iterations() == computed.type.shape.size() &&
                   loop.buffers.back().value == ref.value && loop.buffers.back().byte_offset == 0 &&
                   stored.buffer + 1 == program.buffers
               ? s
               : -1;
  }

  bool take(PlanStep& contraction, size_t input, int s) {
    const PlanStep& loop = plan_.steps[static_cast<size_t>(s)];
    KernelRequest request = *contraction.request;
    const auto end = static_cast<std::ptrdiff_t>(request.inputs.size());
    request.prologue = Prologue{input, loop.loops.front()};
    for (size_t b = 0; b + 1 < loop.buffers.size(); ++b)
      request.inputs.push_back(operand_of(plan_, loop.buffers[b]));
    if (!backend_of(contraction.device).takes_prologue(contraction.device.index, request)) return false;
    contraction.request = std::move(request);
    contraction.buffers.insert(contraction.buffers.begin() + end, loop.buffers.begin(),
                               loop.buffers.end() - 1);
    const int computed = contraction.buffers[input].value;
    std::erase(contraction.reads, computed);
    add_new(contraction.reads, loop.reads);
    add_new(contraction.after, loop.after);
    contraction.writes.push_back(computed);
    auto parts = loop.parts;
    add_new(parts, contraction.parts);
    contraction.parts = std::move(parts);
    contraction.ops.insert(contraction.ops.begin(), loop.ops.begin(), loop.ops.end());
    contraction.flops += loop.flops;
    contraction.bytes += loop.bytes - 2 * static_cast<int64_t>(value(computed).type.bytes());
    for (const auto* list : {&loop.reads, &loop.after})
      for (const int v : *list) links_.readers[static_cast<size_t>(v)].erase(s);
    absorbed_[static_cast<size_t>(s)] = true;
    return true;
  }

  Plan& plan_;
  std::vector<bool> absorbed_;  // for each step
  StepLinks links_;
};

}  // namespace

void absorb_prologues(Plan& plan) { PrologueAbsorber(plan).run(); }

}  // namespace athanor
