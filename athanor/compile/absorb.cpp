// Loops that read the result of a contraction (a product, a convolution, attention or a gradient) run in its
// kernel, where the result's elements are in registers and need not be read again.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "athanor/compile/fuse.h"
#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/copying_loop.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/joined_walk.h"
#include "athanor/kernels/memory_order.h"

namespace athanor {
namespace {

constexpr size_t max_outputs = 12;  // buffers that an epilogue writes

/// A loop that only stores the contraction's result, in the order of its memory.
LoopProgram stored_as_it_is(const KernelRequest& request) {
  const OperandDesc& result = request.output();
  Ints space;
  for (const int64_t axis : memory_order(result.strides))
    space.push_back(result.shape[static_cast<int>(axis)]);
  const Ints strides = contiguous_strides(Shape(space));
  return copying_loop(result.dtype, std::move(space), strides, strides);
}

/// Whether small differences in buffer 0 make only small differences in the results.
bool is_continuous(const LoopProgram& program) {
  std::vector<bool> depends;
  const auto of = [&](int r) { return r >= 0 && depends[static_cast<size_t>(r)]; };
  const auto check = [&](const std::vector<LoopStep>& steps) {
    for (const LoopStep& s : steps) {
      const bool held =
          s.kind == LoopStep::Kind::load && program.operands[static_cast<size_t>(s.operand)].buffer == 0;
      depends.push_back(held || of(s.a) || of(s.b) || of(s.c));
      if (!held && depends.back() && (!is_continuous(s.prim) || !is_float(s.type))) return false;
    }
    return true;
  };
  if (!check(program.body)) return false;
  for (const LoopReduction& r : program.reductions) {
    depends.push_back(of(r.source));
    if (r.prim == Prim::argmax || r.prim == Prim::prod) return false;
  }
  return check(program.epilogue);
}

class Absorber {
 public:
  Absorber(Plan& plan, const std::vector<bool>& donated)
      : plan_(plan), donated_(donated), absorbed_(plan.steps.size(), false), links_(plan) {}

  void run() {
    bool any = false;
    for (int s = 0; s < count(); ++s) any |= try_loop(s);
    if (!any) return;
    for (int s = 0; s < count(); ++s)
      if (step(s).request && step(s).request->has_epilogue()) drop_unread(s);
    // Contractions now also need what their loops read.
    order_by_links(plan_, links_, absorbed_);
  }

 private:
  int count() const { return static_cast<int>(plan_.steps.size()); }
  PlanStep& step(int s) { return plan_.steps[static_cast<size_t>(s)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int writer(int v) const { return links_.writer[static_cast<size_t>(v)]; }

  /// Tries to run the loop in the last contraction whose result it reads, then in the earlier ones.
  bool try_loop(int s) {
    if (step(s).loops.size() != 1 || step(s).kind != PlanStep::Kind::launch || updates_in_place(step(s)) ||
        is_in_segment(plan_, step(s)))
      return false;
    std::set<int, std::greater<>> contractions;
    for (const int v : step(s).reads)
      if (const int w = writer(v); w >= 0 && step(w).request && step(w).device == step(s).device)
        contractions.insert(w);
    return std::ranges::any_of(contractions,
                               [&](int c) { return !is_in_segment(plan_, step(c)) && take(c, s); });
  }

  /// Whether the loop updates parameters. These run by themselves, many in one launch, in place.
  bool updates_in_place(const PlanStep& loop) const {
    const LoopProgram& program = loop.loops.front();
    return std::ranges::any_of(program.stores, [&](const LoopStore& store) {
      const int to =
          loop.buffers[static_cast<size_t>(program.operands[static_cast<size_t>(store.operand)].buffer)]
              .value;
      return value(to).kind == PlanValue::Kind::output && std::ranges::any_of(loop.reads, [&](int from) {
               const PlanValue& old = value(from);
               return old.kind == PlanValue::Kind::input && donated_[static_cast<size_t>(old.binding)] &&
                      old.type.bytes() == value(to).type.bytes();
             });
    });
  }

  /// Whether the loop reads a result of KernelRequest::with: an epilogue has the elements of the op's own.
  static bool reads_along(const PlanStep& contraction, const PlanStep& loop) {
    const KernelRequest& request = *contraction.request;
    const auto first = contraction.buffers.begin() +
                       static_cast<std::ptrdiff_t>(request.inputs.size() + request.first_with());
    return std::any_of(first, first + std::ssize(request.with),
                       [&](const BufferRef& ref) { return std::ranges::count(loop.reads, ref.value) > 0; });
  }

  bool take(int c, int s) {
    PlanStep &contraction = step(c), &loop = step(s);
    if (links_.reaches_through_others(plan_, c, s) || reads_along(contraction, loop)) return false;
    KernelRequest request = *contraction.request;
    const size_t own = request.own_inputs();
    LoopProgram first = request.has_epilogue() ? request.epilogue : stored_as_it_is(request);

    // The contraction's inputs and outputs keep their order; the loop's new ones follow.
    std::vector<BufferRef> inputs(
        contraction.buffers.begin() + static_cast<std::ptrdiff_t>(own),
        contraction.buffers.begin() + static_cast<std::ptrdiff_t>(request.inputs.size()));
    std::vector<BufferRef> outputs(
        contraction.buffers.begin() + static_cast<std::ptrdiff_t>(request.inputs.size()),
        contraction.buffers.end());
    const size_t old_inputs = inputs.size(), old_outputs = outputs.size();
    struct Argument {
      bool is_output;
      size_t number;
    };
    std::vector<Argument> arguments;
    const auto place_in = [](std::vector<BufferRef>& list, const BufferRef& ref) {
      const auto same = std::ranges::find_if(list, [&](const BufferRef& other) {
        return other.value == ref.value && other.byte_offset == ref.byte_offset;
      });
      if (same == list.end()) return list.push_back(ref), list.size() - 1;
      return static_cast<size_t>(same - list.begin());
    };
    for (const BufferRef& ref : loop.buffers) {
      const bool is_output = std::ranges::count(contraction.writes, ref.value) > 0 ||
                             std::ranges::count(loop.writes, ref.value) > 0;
      arguments.push_back({is_output, place_in(is_output ? outputs : inputs, ref)});
    }
    if (inputs.size() > most_absorbed_inputs || outputs.size() > max_outputs) return false;
    const auto more = static_cast<int>(inputs.size() - old_inputs);
    for (LoopOperand& operand : first.operands)
      if (operand.buffer > static_cast<int>(old_inputs)) operand.buffer += more;
    std::vector<int> numbers;
    for (const Argument& argument : arguments)
      numbers.push_back(static_cast<int>(1 + argument.number + (argument.is_output ? inputs.size() : 0)));
    auto joined =
        joined_walk(first, loop.loops.front(), numbers, static_cast<int>(1 + inputs.size() + outputs.size()));
    if (!joined || joined->body.size() > most_absorbed_steps || !is_continuous(*joined)) return false;

    request.epilogue = std::move(*joined);
    request.inputs.resize(own + old_inputs);
    for (size_t i = old_inputs; i < inputs.size(); ++i)
      request.inputs.push_back(operand_of(plan_, inputs[i]));
    for (size_t i = old_outputs; i < outputs.size(); ++i)
      request.outputs.push_back(operand_of(plan_, outputs[i]));
    if (!is_taken(contraction.device, request)) return false;

    contraction.request = std::move(request);
    contraction.buffers.resize(own);
    for (const auto* list : {&inputs, &outputs})
      contraction.buffers.insert(contraction.buffers.end(), list->begin(), list->end());
    merge(c, s);
    return true;
  }

  static bool is_taken(Device device, const KernelRequest& request) {
    if (backend_of(device).takes_epilogue(device.index, request)) return true;
    if (request.compute == ComputeType::by_dtypes) return false;
    KernelRequest exact = request;
    exact.compute = ComputeType::by_dtypes;
    return backend_of(device).takes_epilogue(device.index, exact);
  }

  void merge(int c, int s) {
    PlanStep &contraction = step(c), &loop = step(s);
    for (const int v : loop.reads) {
      links_.readers[static_cast<size_t>(v)].erase(s);
      if (std::ranges::count(contraction.writes, v) > 0) continue;
      links_.readers[static_cast<size_t>(v)].insert(c);
      add_new(contraction.reads, std::vector{v});
    }
    for (const int v : loop.after) links_.readers[static_cast<size_t>(v)].insert(c);
    for (const int v : loop.writes) links_.writer[static_cast<size_t>(v)] = c;
    add_new(contraction.writes, loop.writes);
    add_new(contraction.after, loop.after);
    add_new(contraction.parts, loop.parts);
    contraction.ops.insert(contraction.ops.end(), loop.ops.begin(), loop.ops.end());
    contraction.flops += loop.flops;
    absorbed_[static_cast<size_t>(s)] = true;
  }

  static bool is_along(const KernelRequest& request, size_t output) {
    return output >= request.first_with() && output < request.first_with() + request.with.size();
  }

  bool is_read(int v, int c) const {
    const auto& readers = links_.readers[static_cast<size_t>(v)];
    return value(v).kind != PlanValue::Kind::temporary ||
           std::ranges::any_of(readers, [&](int r) { return r != c; });
  }

  /// Removes the stores of results that no other step reads.
  void drop_unread(int c) {
    PlanStep& s = step(c);
    KernelRequest& request = *s.request;
    if (!has_further_results(request)) return;
    LoopProgram& program = request.epilogue;
    const size_t first_output = request.inputs.size();
    for (size_t i = request.outputs.size(); i-- > 0;) {
      const int v = s.buffers[first_output + i].value;
      if (is_read(v, c) || is_along(request, i)) continue;
      if (i == 0 && !request.unstored) request.unstored = request.outputs[0];
      const int buffer = program.buffers - static_cast<int>(request.outputs.size() - i);
      const auto writes = [&](const LoopStore& store) {
        return program.operands[static_cast<size_t>(store.operand)].buffer == buffer;
      };
      std::erase_if(program.stores, writes);
      std::erase_if(program.epilogue_stores, writes);
      for (LoopOperand& operand : program.operands)
        if (operand.buffer >= buffer) --operand.buffer;  // the removed buffer itself is not used any more
      --program.buffers;
      request.outputs.erase(request.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      s.buffers.erase(s.buffers.begin() + static_cast<std::ptrdiff_t>(first_output + i));
      std::erase(s.writes, v);
    }
    drop_operands(program);
    s.bytes = 0;
    for (const auto* list : {&request.inputs, &request.outputs})
      for (const OperandDesc& operand : *list)
        s.bytes += operand.shape.size() * static_cast<int64_t>(size_of(operand.dtype));
  }

  /// Removes the operands that no step and no store uses.
  static void drop_operands(LoopProgram& program) {
    std::vector<int> number(program.operands.size(), -1);
    std::vector<LoopOperand> used;
    const auto renamed = [&](int& operand) {
      int& to = number[static_cast<size_t>(operand)];
      if (to < 0)
        to = static_cast<int>(used.size()), used.push_back(program.operands[static_cast<size_t>(operand)]);
      operand = to;
    };
    for (auto* steps : {&program.body, &program.epilogue})
      for (LoopStep& s : *steps)
        if (s.kind == LoopStep::Kind::load) renamed(s.operand);
    for (auto* stores : {&program.stores, &program.epilogue_stores})
      for (LoopStore& s : *stores) renamed(s.operand);
    program.operands = std::move(used);
  }

  Plan& plan_;
  const std::vector<bool>& donated_;
  std::vector<bool> absorbed_;  // for each step
  StepLinks links_;
};

}  // namespace

void absorb_loops(Plan& plan, const std::vector<bool>& donated) { Absorber(plan, donated).run(); }

}  // namespace athanor
