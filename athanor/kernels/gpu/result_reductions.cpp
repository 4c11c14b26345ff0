// What an epilogue with further results stores, and which dimensions it reduces.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "athanor/kernels/gpu/result_epilogue.h"

namespace athanor::gpu {
namespace {

/// A dimension of the result: its elements are `stride` apart in memory.
struct Span {
  int64_t stride, extent;
  int64_t end() const { return stride * extent; }
  bool lies_in(const ResultAxis& axis) const {
    return stride % axis.stride == 0 && axis.stride * axis.extent % end() == 0;
  }
  bool meets(const ResultAxis& axis) const {
    return std::max(stride, axis.stride) < std::min(end(), axis.stride * axis.extent);
  }
};

}  // namespace

std::vector<ResultEpilogue::Output> ResultEpilogue::outputs() const {
  std::vector<Output> all;
  for (const LoopStore& store : program_.stores) {
    const LoopOperand& operand = program_.operands[static_cast<size_t>(store.operand)];
    all.push_back({fmt::format("stored{}", all.size()), operand.dtype, argument(operand.buffer)});
  }
  return all;
}

bool ResultEpilogue::fits() const {
  if (!further_) return true;
  const Ints as_result = places();
  const auto is_stored_so = [](DType type) {
    return type == DType::f32 || type == DType::f16 || type == DType::bf16;
  };
  for (const LoopStore& store : program_.stores) {
    const LoopOperand& operand = program_.operands[static_cast<size_t>(store.operand)];
    if (operand.offset != 0 || operand.strides != as_result || !is_stored_so(operand.dtype)) return false;
    if (program_.body[static_cast<size_t>(store.source)].type != DType::f32) return false;
  }
  const bool sums = std::ranges::all_of(program_.reductions, [](const LoopReduction& r) {
    return r.type == DType::f32 &&
           (r.prim == Prim::sum || r.prim == Prim::reduce_max || r.prim == Prim::reduce_min);
  });
  return sums && (program_.reductions.empty() || reduced().has_value());
}

std::optional<ResultEpilogue::Reduced> ResultEpilogue::reduced() const {
  const Ints strides = places();
  std::vector<bool> along(axes.size()), kept(axes.size());
  Reduced all;
  // Rows or columns that no axis describes can only be reduced: if they are kept, this returns none below.
  all.row = std::ranges::none_of(axes, [](const ResultAxis& axis) { return axis.row != 0; });
  all.column = std::ranges::none_of(axes, [](const ResultAxis& axis) { return axis.column != 0; });
  for (size_t d = program_.space.size(); d-- > 0;) {
    const Span span{strides[d], program_.space[d]};
    const auto inside =
        std::ranges::find_if(axes, [&](const ResultAxis& axis) { return span.lies_in(axis); });
    if (!program_.reduced[d]) {
      std::string index;
      if (inside != axes.end()) {
        kept[static_cast<size_t>(inside - axes.begin())] = true;
        index = index_of(span.stride, span.extent);
      } else {
        // The dimension covers whole axes, such as rows of all matrices.
        int64_t covered = 1;
        for (size_t a = 0; a < axes.size(); ++a) {
          if (!span.meets(axes[a])) continue;
          if (axes[a].stride % span.stride != 0) return std::nullopt;
          kept[a] = true;
          covered *= axes[a].extent;
          index += fmt::format("{}({}) * {}", index.empty() ? "" : " + ", sum_of(axes[a]),
                               axes[a].stride / span.stride);
        }
        if (covered != span.extent) return std::nullopt;
      }
      if (all.results != 1) index = fmt::format("({}) * {}", index, all.results);
      all.result += (all.result.empty() ? "" : " + ") + index;
      all.results *= span.extent;
    } else if (inside != axes.end()) {
      along[static_cast<size_t>(inside - axes.begin())] = true;
    } else {
      for (size_t a = 0; a < axes.size(); ++a)
        if (span.meets(axes[a])) along[a] = true;
    }
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    if (along[a] && kept[a]) return std::nullopt;
    if (!along[a]) continue;
    all.batch |= axes[a].batch != 0;
    all.row |= axes[a].row != 0;
    all.column |= axes[a].column != 0;
  }
  if (!all.row && !all.column) return std::nullopt;
  if (all.result.empty()) all.result = "0";
  return all;
}

ResultEpilogue::Finish ResultEpilogue::finish(int64_t parts) const {
  Finish all;
  LoopProgram& p = all.program;
  std::vector<size_t> kept;
  int64_t results = 1;
  for (size_t d = 0; d < program_.space.size(); ++d)
    if (!program_.reduced[d]) kept.push_back(d), results *= program_.space[d];
  const auto of_kept = [&](const Ints& strides) {
    Ints some;
    for (const size_t d : kept) some.push_back(strides[d]);
    some.push_back(0);
    return some;
  };
  for (const size_t d : kept) p.space.push_back(program_.space[d]);
  p.reduced.assign(kept.size(), false);
  p.space.push_back(parts);
  p.reduced.push_back(true);
  Ints strides(p.space.size(), 1);
  for (size_t d = p.space.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * p.space[d + 1];
  for (size_t t = 0; t < program_.reductions.size(); ++t) {
    LoopStep load;
    load.kind = LoopStep::Kind::load;
    load.type = DType::f32;
    load.operand = static_cast<int>(t);
    p.operands.push_back({0, DType::f32, static_cast<int64_t>(t) * results * parts, strides});
    p.body.push_back(std::move(load));
    p.reductions.push_back({program_.reductions[t].prim, static_cast<int>(t), DType::f32});
  }
  std::map<int, int> buffers;
  const auto operand = [&](int number) {
    LoopOperand one = program_.operands[static_cast<size_t>(number)];
    const auto [at, fresh] = buffers.emplace(one.buffer, static_cast<int>(buffers.size()) + 1);
    if (fresh) all.arguments.push_back(argument(one.buffer));
    one.buffer = at->second;
    one.strides = of_kept(one.strides);
    p.operands.push_back(std::move(one));
    return static_cast<int>(p.operands.size()) - 1;
  };
  add_epilogue(p, program_, operand, of_kept);
  p.buffers = static_cast<int>(buffers.size()) + 1;
  return all;
}

namespace {

/// A piece of a program's dimension `of`: its indices count `inner` of that dimension's.
struct Piece {
  size_t of;
  int64_t extent, inner, in_part;
};

/// Divides dimensions, with these strides in the result, so that each piece lies in one digit; {} if they
/// cannot be divided so. Outermost piece first.
std::vector<Piece> pieces_of(const LoopProgram& program, const Ints& strides,
                             const std::vector<ResultEpilogue::Digit>& digits) {
  std::vector<Piece> all;
  for (size_t d = program.space.size(); d-- > 0;) {
    int64_t inner = 1;
    while (inner < program.space[d]) {
      const int64_t stride = strides[d] * inner, left = program.space[d] / inner;
      const auto digit = std::ranges::find_if(digits, [&](const ResultEpilogue::Digit& one) {
        return stride % one.stride == 0 && stride < one.stride * one.extent;
      });
      if (digit == digits.end() || digit->stride * digit->extent % stride != 0) return {};
      const int64_t extent = std::min(left, digit->stride * digit->extent / stride);
      if (left % extent != 0) return {};
      all.insert(all.begin(), {d, extent, inner, stride / digit->stride * digit->in_part});
      inner *= extent;
    }
  }
  return all;
}

/// The same program with these pieces as its dimensions.
void divide(LoopProgram& program, const std::vector<Piece>& pieces) {
  const std::vector<bool> reduced = std::move(program.reduced);
  program.space.clear();
  program.reduced.clear();
  for (const Piece& piece : pieces) {
    program.space.push_back(piece.extent);
    program.reduced.push_back(reduced[piece.of]);
  }
  const auto divided = [&](Ints& strides) {
    Ints some;
    for (const Piece& piece : pieces) some.push_back(strides[piece.of] * piece.inner);
    strides = std::move(some);
  };
  for (LoopOperand& operand : program.operands) divided(operand.strides);
  for (auto* steps : {&program.body, &program.epilogue})
    for (LoopStep& step : *steps)
      if (step.kind == LoopStep::Kind::index) divided(step.index_strides);
}

}  // namespace

std::optional<ResultEpilogue::Finish> ResultEpilogue::over_parts(int64_t parts, int64_t distance,
                                                                 const std::vector<Digit>& digits) const {
  const std::vector<Piece> pieces = pieces_of(program_, places(), digits);
  if (pieces.empty() && program_.iterations() > 1) return std::nullopt;
  const DType sum_type = computed_in(std::ranges::find(program_.operands, 0, &LoopOperand::buffer)->dtype);
  Ints strides;
  for (const Piece& piece : pieces) strides.push_back(piece.in_part);
  Finish all;
  all.program = program_;
  LoopProgram& p = all.program;
  divide(p, pieces);
  for (int b = 1; b < p.buffers; ++b) all.arguments.push_back(argument(b));
  // The sum takes the place of the element's load; all other registers move behind its steps.
  std::vector<LoopStep> body;
  const auto first_operand = static_cast<int>(p.operands.size());
  for (int64_t s = 0; s < parts; ++s) p.operands.push_back({0, sum_type, s * distance, strides});
  std::vector<int> number;
  const std::vector<LoopStep> steps = std::move(p.body);
  for (LoopStep step : steps) {
    for (int* r : {&step.a, &step.b, &step.c})
      if (*r >= 0) *r = number[static_cast<size_t>(*r)];
    const bool element =
        step.kind == LoopStep::Kind::load && program_.operands[static_cast<size_t>(step.operand)].buffer == 0;
    for (int64_t s = 0; s < parts && element; ++s) {
      step.operand = first_operand + static_cast<int>(s);
      body.push_back(step);
      if (s == 0) continue;
      LoopStep sum;
      sum.prim = Prim::add;
      sum.type = step.type;
      sum.a = static_cast<int>(body.size()) - 2;
      sum.b = static_cast<int>(body.size()) - 1;
      body.push_back(sum);
    }
    if (!element) body.push_back(std::move(step));
    number.push_back(static_cast<int>(body.size()) - 1);
  }
  const auto more = static_cast<int>(body.size() - steps.size());
  const auto renamed = [&](int& r) {
    if (r >= 0) r = r < static_cast<int>(number.size()) ? number[static_cast<size_t>(r)] : r + more;
  };
  p.body = std::move(body);
  for (LoopStore& store : p.stores) renamed(store.source);
  for (LoopReduction& reduction : p.reductions) renamed(reduction.source);
  for (LoopStep& step : p.epilogue)
    for (int* r : {&step.a, &step.b, &step.c}) renamed(*r);
  for (LoopStore& store : p.epilogue_stores) renamed(store.source);
  return all;
}

}  // namespace athanor::gpu
