// Rows of values that products read begin at multiples of some bytes (Backend::row_alignment), with a gap
// behind each row. A vocabulary of 50257 tokens would otherwise make products read every element by itself.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "athanor/base/ceil_div.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/row_chain.h"
#include "athanor/kernels/row_pitch.h"

namespace athanor {
namespace {

class RowAligner {
 public:
  explicit RowAligner(Plan& plan) : plan_(plan), pitch_(plan.values.size(), 0) {}

  void run() {
    for (size_t v = 0; v < plan_.values.size(); ++v) pitch_[v] = wanted_pitch(plan_.values[v]);
    for (PlanStep& step : plan_.steps) find_fixed(step);
    for (bool changed = true; changed;) {
      changed = keep_results_alike();
      changed |= keep_loops_alike();
    }
    leave_unread();
    for (PlanStep& step : plan_.steps) place(step);
    for (size_t v = 0; v < plan_.values.size(); ++v) plan_.values[v].row_pitch = pitch_[v];
  }

 private:
  PlanValue& value(int v) { return plan_.values[static_cast<size_t>(v)]; }
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }
  int64_t& pitch(int v) { return pitch_[static_cast<size_t>(v)]; }
  int64_t row_of(int v) const { return value(v).type.shape[-1]; }
  int64_t size_of_element(int v) const { return static_cast<int64_t>(size_of(value(v).type.dtype)); }

  /// Whether rows begin at places that products and loops read element by element.
  static bool begins_anywhere(const PlanValue& value) {
    const Shape& shape = value.type.shape;
    const int64_t row = shape.rank() == 0 ? 0 : shape[-1] * static_cast<int64_t>(size_of(value.type.dtype));
    return row % backend_of(value.type.device).row_alignment(value.type.device.index) != 0;
  }

  /// Elements from row to row, or 0 if rows need no gaps: multiples of 64 elements, or of fewer if the gaps
  /// would take more than a 32nd of the memory; never more than a 16th. All types get the same, so that one
  /// kernel can store several.
  static int64_t wanted_pitch(const PlanValue& value) {
    constexpr int64_t most = 64, least = 8, small_gap = 32, most_gap = 16;  // elements; parts of the memory
    const Shape& shape = value.type.shape;
    if (value.kind != PlanValue::Kind::temporary || value.layout.block != 0 || shape.rank() < 2 ||
        shape.size() == 0 || !begins_anywhere(value))
      return 0;
    const int64_t row = shape[-1];
    int64_t alignment = most;
    const auto pitch = [&] { return ceil_div(row, alignment) * alignment; };
    while (alignment > least && (pitch() - row) * small_gap > row) alignment /= 2;
    return (pitch() - row) * most_gap <= row ? pitch() : 0;
  }

  /// One use of a buffer by a step: operands of a loop program, and the description of a product's operand.
  struct Use {
    size_t buffer;
    LoopProgram* program = nullptr;
    int number = 0;  // of the buffer in the program
    OperandDesc* operand = nullptr;
  };

  /// How a step uses its buffers, as far as their rows can have gaps.
  static std::vector<Use> uses_of(PlanStep& step) {
    std::vector<Use> uses;
    if (step.kind != PlanStep::Kind::launch) return uses;
    if (!step.loops.empty()) {
      for (LoopProgram& program : step.loops)
        for (size_t b = 0; b < step.buffers.size(); ++b) uses.push_back({b, &program, static_cast<int>(b)});
      return uses;
    }
    // Kernels of primitives read any strides.
    if (!step.request || step.request->op->prim != Prim::batch_matmul || !step.request->with.empty())
      return uses;
    KernelRequest& request = *step.request;
    const size_t own = request.own_inputs(), outputs = request.inputs.size(),
                 others = outputs - request.prologue_inputs();
    for (size_t b = 0; b < own; ++b)
      if (!request.prologue || request.prologue->input != b)
        uses.push_back({b, nullptr, 0, &request.inputs[b]});
    LoopProgram* const epilogue = request.has_epilogue() ? &request.epilogue : nullptr;
    for (size_t b = own; b < others; ++b)
      uses.push_back({b, epilogue, static_cast<int>(b - own) + 1, &request.inputs[b]});
    for (size_t o = 0; o < request.outputs.size(); ++o)
      uses.push_back({outputs + o, epilogue, static_cast<int>(others - own + o) + 1, &request.outputs[o]});
    return uses;
  }

  /// Finds values that a step reads or writes in a way that needs them without gaps.
  void find_fixed(PlanStep& step) {
    const std::vector<Use> uses = uses_of(step);
    std::vector<bool> placeable(step.buffers.size(), false);
    for (const Use& use : uses) placeable[use.buffer] = true;
    const int64_t chain_row = step.chained ? row_chain(step.loops).value().row() : 0;
    for (const Use& use : uses) {
      const BufferRef& ref = step.buffers[use.buffer];
      bool fits = use.program == nullptr || ref.byte_offset == 0;
      if (use.operand != nullptr)
        fits &= placed(ref, {0, use.operand->strides}, use.operand->shape.to_ints()).has_value();
      if (use.program != nullptr)
        for (const LoopOperand& operand : use.program->operands)
          fits &= operand.buffer != use.number ||
                  placed(ref, {operand.offset, operand.strides}, use.program->space).has_value();
      // In a chain, a row has one dimension, so there may be no gaps inside it.
      fits &= !step.chained || pitch(ref.value) == 0 || row_of(ref.value) == chain_row;
      placeable[use.buffer] = placeable[use.buffer] && fits;
    }
    for (size_t b = 0; b < step.buffers.size(); ++b)
      if (!placeable[b]) pitch(step.buffers[b].value) = 0;
  }

  std::optional<Places> placed(const BufferRef& ref, Places places, const Ints& extents) const {
    const int64_t pitch = pitch_[static_cast<size_t>(ref.value)];
    if (pitch == 0) return places;  // a scalar has no rows
    places.offset += ref.byte_offset / size_of_element(ref.value);
    return with_pitch(places, extents, row_of(ref.value), row_of(ref.value), pitch);
  }

  /// The outputs of an epilogue that lie in memory as the product's result does.
  static std::vector<size_t> outputs_like_the_result(const KernelRequest& request) {
    const LoopProgram& program = request.epilogue;
    const auto result = std::ranges::find(program.operands, 0, &LoopOperand::buffer);
    std::vector<size_t> found;
    for (size_t o = 0; o < request.outputs.size(); ++o) {
      const int buffer = program.buffers - static_cast<int>(request.outputs.size() - o);
      const auto stored = std::ranges::find(program.operands, buffer, &LoopOperand::buffer);
      if (stored != program.operands.end() && result != program.operands.end() &&
          stored->strides == result->strides)
        found.push_back(o);
    }
    return found;
  }

  /// Elements from row to row of a product's result, stored or not: those of all outputs that lie as it does.
  /// 0 if they differ.
  int64_t pitch_of_result(const PlanStep& step) const {
    const KernelRequest& request = *step.request;
    int64_t common = -1;
    for (const size_t o : outputs_like_the_result(request)) {
      const int64_t one = pitch_[static_cast<size_t>(step.buffers[request.inputs.size() + o].value)];
      common = common < 0 || common == one ? one : 0;
    }
    return std::max<int64_t>(common, 0);
  }

  /// Kernels store several results of a product at the same place of each. True if a value has lost its gaps.
  bool keep_results_alike() {
    bool changed = false;
    for (const PlanStep& step : plan_.steps) {
      if (!step.request || !step.request->has_epilogue()) continue;
      const int64_t common = pitch_of_result(step);
      const auto alike = outputs_like_the_result(*step.request);
      for (size_t o = 0; o < step.request->outputs.size(); ++o) {
        int64_t& one = pitch(step.buffers[step.request->inputs.size() + o].value);
        if (one == 0 || (one == common && std::ranges::count(alike, o) > 0)) continue;
        one = 0;
        changed = true;
      }
    }
    return changed;
  }

  /// A loop reads and writes several elements at once if all rows begin at the same place of a vector, and
  /// writes its result over an operand if both lie in memory alike. So all full-size values of a loop whose
  /// rows are as long have gaps, or none. True if a value has lost its gaps.
  bool keep_loops_alike() {
    bool changed = false;
    for (const PlanStep& step : plan_.steps) {
      if (step.loops.empty()) continue;
      for (const BufferRef& spaced : step.buffers) {
        if (pitch(spaced.value) == 0) continue;
        const Shape& shape = value(spaced.value).type.shape;
        const auto is_dense = [&](const BufferRef& other) {
          const Shape& its = value(other.value).type.shape;
          return pitch(other.value) == 0 && its.size() == shape.size() && its[-1] == shape[-1] &&
                 begins_anywhere(value(other.value));
        };
        if (std::ranges::none_of(step.buffers, is_dense)) continue;
        pitch(spaced.value) = 0;
        changed = true;
      }
    }
    return changed;
  }

  /// Only products gain from gaps. Values whose rows are as long as those that products read keep them too,
  /// for the loops that read both.
  void leave_unread() {
    std::set<int64_t> read;  // lengths of rows
    for (PlanStep& step : plan_.steps)
      for (const Use& use : uses_of(step))
        if (const int v = step.buffers[use.buffer].value;
            step.request && use.buffer < step.request->own_inputs() && pitch(v) != 0)
          read.insert(row_of(v));
    for (int v = 0; v < static_cast<int>(plan_.values.size()); ++v)
      if (pitch(v) != 0 && !read.contains(row_of(v))) pitch(v) = 0;
  }

  void place(PlanStep& step) {
    if (step.request && step.request->has_epilogue()) place_result(step);
    for (const Use& use : uses_of(step)) {
      BufferRef& ref = step.buffers[use.buffer];
      if (pitch(ref.value) == 0) continue;
      if (use.program != nullptr)
        place(*use.program, use.number,
              [&](const Places& at) { return placed(ref, at, use.program->space); });
      if (use.operand != nullptr) ref.byte_offset = place(*use.operand, ref);
    }
  }

  /// Moves the operands of a program's buffer.
  template <class Moved>
  static void place(LoopProgram& program, int buffer, const Moved& moved) {
    for (LoopOperand& operand : program.operands) {
      if (operand.buffer != buffer) continue;
      Places places = moved(Places{operand.offset, operand.strides}).value();
      operand.offset = places.offset;
      operand.strides = std::move(places.strides);
    }
  }

  /// Moves a product's result as its epilogue reads it.
  void place_result(PlanStep& step) {
    const int64_t result_pitch = pitch_of_result(step);
    if (result_pitch == 0) return;
    KernelRequest& request = *step.request;
    const int64_t row = request.output().shape[-1];
    place(request.epilogue, 0,
          [&](const Places& at) { return with_pitch(at, request.epilogue.space, row, row, result_pitch); });
    if (!request.unstored) return;
    OperandDesc& result = *request.unstored;
    result.strides = with_pitch({0, result.strides}, result.shape.to_ints(), row, row, result_pitch)->strides;
    result.padding = result_pitch - row;
  }

  /// Returns where the operand begins, in bytes.
  int64_t place(OperandDesc& operand, const BufferRef& ref) const {
    const int64_t row = row_of(ref.value), row_pitch = pitch_[static_cast<size_t>(ref.value)];
    const Places places = placed(ref, {0, operand.strides}, operand.shape.to_ints()).value();
    const int64_t start = places.offset * size_of_element(ref.value), in_row = places.offset % row_pitch;
    operand.strides = places.strides;
    operand.alignment = std::gcd(start, OperandDesc::whole_vectors);
    for (int axis = 0; axis < operand.shape.rank(); ++axis)
      if (operand.strides[static_cast<size_t>(axis)] == 1 && in_row + operand.shape[axis] == row)
        operand.padding = row_pitch - row;
    return start;
  }

  Plan& plan_;
  std::vector<int64_t> pitch_;  // for each value; 0: no gaps
};

}  // namespace

void align_rows(Plan& plan) { RowAligner(plan).run(); }

}  // namespace athanor
