// Results that only a concatenation reads are written where they belong in it, so that nothing is copied: the
// gradients of queries, keys and values, which one kernel of attention computes, are parts of one matrix.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/compile/step_links.h"
#include "athanor/kernels/row_pitch.h"

namespace athanor {
namespace {

class ConcatWriter {
 public:
  explicit ConcatWriter(Plan& plan) : plan_(plan), links_(plan) {}

  void run() {
    std::vector<bool> written;
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) written.push_back(written_by_another(s));
    std::vector<PlanStep> left;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (!written[s]) left.push_back(std::move(plan_.steps[s]));
    plan_.steps = std::move(left);
  }

 private:
  /// A result that becomes a part of a concatenation.
  struct Part {
    size_t output;  // of the request that computes it
    Places places;  // in the concatenation
  };

  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  /// Whether the step was a concatenation whose parts an earlier step now writes in place.
  bool written_by_another(int s) {
    const PlanStep& concat = plan_.steps[static_cast<size_t>(s)];
    if (!concat.request || concat.request->op->prim != Prim::concat || !concat.after.empty() ||
        is_in_segment(plan_, concat))
      return false;
    const int w = links_.writer[static_cast<size_t>(concat.reads.front())];
    if (w < 0 || w >= s || !can_write(plan_.steps[static_cast<size_t>(w)], concat)) return false;
    PlanStep& step = plan_.steps[static_cast<size_t>(w)];
    const auto parts = parts_of(step, concat);
    if (!parts) return false;
    write(step, concat, *parts);
    return true;
  }

  /// Whether the step's kernels may write results with gaps, and there are as many results as parts.
  bool can_write(const PlanStep& step, const PlanStep& concat) const {
    const size_t parts = concat.request->inputs.size();
    return step.kind == PlanStep::Kind::launch && step.request && step.device == concat.device &&
           step.request->op->prim == Prim::none && !step.request->has_epilogue() &&
           step.request->outputs.size() == parts && step.writes.size() == parts && !step.again &&
           backend_of(step.device).takes_strides(*step.request->op) && !is_in_segment(plan_, step);
  }

  /// Whether its elements follow each other in memory in the order of their indices.
  static bool is_in_order(const OperandDesc& part) {
    const Ints dense = contiguous_strides(part.shape);
    for (int axis = 0; axis < part.shape.rank(); ++axis)
      if (const auto a = static_cast<size_t>(axis); part.shape[axis] > 1 && part.strides[a] != dense[a])
        return false;
    return true;
  }

  /// Where each part lies. None if one of them is not a whole result of the step, or has other readers.
  std::optional<std::vector<Part>> parts_of(const PlanStep& step, const PlanStep& concat) const {
    const KernelRequest& joined = *concat.request;
    const OperandDesc& whole = joined.output();
    if (!whole.dense() || whole.layout.block != 0) return {};
    const auto axis = static_cast<size_t>(joined.attrs.integer("axis"));
    const int64_t pitch = std::accumulate(whole.shape.begin() + static_cast<std::ptrdiff_t>(axis),
                                          whole.shape.end(), int64_t{1}, std::multiplies<>());
    int64_t begin = 0;
    std::vector<Part> parts;
    for (size_t i = 0; i < joined.inputs.size(); ++i) {
      const OperandDesc& part = joined.inputs[i];
      const BufferRef& ref = concat.buffers[i];
      const auto v = static_cast<size_t>(ref.value);
      const auto output = output_of(step, ref.value);
      const bool twice = output && std::ranges::find(parts, *output, &Part::output) != parts.end();
      if (!output || twice || !is_in_order(part) || ref.byte_offset != 0 ||
          value(ref.value).layout.block != 0 || value(ref.value).kind != PlanValue::Kind::temporary ||
          links_.readers[v].size() != 1 || part.shape.size() != value(ref.value).type.shape.size() ||
          part.shape.size() == 0 || part.dtype != whole.dtype)
        return {};
      // Of a log-sum-exp, which has no features, kernels write all numbers of a head in a row.
      const OperandDesc& result = step.request->outputs[*output];
      if (result.shape.rank() != step.request->inputs[0].shape.rank()) return {};
      const int64_t row = pitch / whole.shape[static_cast<int>(axis)] * part.shape[static_cast<int>(axis)];
      auto places = with_pitch({0, result.strides}, result.shape.to_ints(), row, row, pitch);
      if (!places || places->strides.back() != 1) return {};
      places->offset = begin;
      begin += row;
      parts.push_back({*output, std::move(*places)});
    }
    return parts;
  }

  static std::optional<size_t> output_of(const PlanStep& step, int v) {
    const size_t inputs = step.request->inputs.size();
    for (size_t o = 0; o < step.request->outputs.size(); ++o)
      if (step.buffers[inputs + o].value == v) return o;
    return {};
  }

  void write(PlanStep& step, const PlanStep& concat, const std::vector<Part>& parts) {
    const int whole = concat.writes.front();
    for (const Part& part : parts) {
      OperandDesc& output = step.request->outputs[part.output];
      const int64_t start = part.places.offset * static_cast<int64_t>(size_of(output.dtype));
      output.strides = part.places.strides;
      output.alignment = std::gcd(start, OperandDesc::whole_vectors);
      step.buffers[step.request->inputs.size() + part.output] = {whole, start};
    }
    step.writes = {whole};
    step.ops.insert(step.ops.end(), concat.ops.begin(), concat.ops.end());
    add_new(step.parts, concat.parts);
    links_.writer[static_cast<size_t>(whole)] = links_.writer[static_cast<size_t>(concat.reads.front())];
  }

  Plan& plan_;
  StepLinks links_;
};

}  // namespace

void write_concats(Plan& plan) { ConcatWriter(plan).run(); }

}  // namespace athanor
