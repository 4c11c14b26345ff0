#include "athanor/kernels/common_space.h"

#include <algorithm>

namespace athanor {

std::optional<Ints> common_space(const Ints& a, const Ints& b) {
  Ints common;
  size_t i = a.size(), j = b.size();
  int64_t of_a = 1, of_b = 1;  // what is left of the current dimensions, from the innermost on
  for (;;) {
    while (of_a == 1 && i > 0) of_a = a[--i];
    while (of_b == 1 && j > 0) of_b = b[--j];
    if (of_a == 1 && of_b == 1) break;
    const int64_t extent = std::min(of_a, of_b);
    if (extent <= 1 || of_a % extent != 0 || of_b % extent != 0) return std::nullopt;
    common.push_back(extent);
    of_a /= extent;
    of_b /= extent;
  }
  std::ranges::reverse(common);
  return common;
}

LoopProgram over(LoopProgram program, const Ints& space) {
  std::vector<size_t> from;  // for each dimension of the space: the program's
  std::vector<int64_t> factor;
  size_t d = program.space.size();
  int64_t below = 1;
  for (size_t n = space.size(); n-- > 0;) {
    if (from.empty() || below == program.space[d]) {
      below = 1;
      do --d;
      while (program.space[d] == 1);
    }
    from.push_back(d);
    factor.push_back(below);
    below *= space[n];
  }
  std::ranges::reverse(from);
  std::ranges::reverse(factor);
  const auto cut = [&](Ints& strides) {
    if (strides.empty()) return strides.assign(space.size(), 0);
    Ints finer;
    for (size_t n = 0; n < space.size(); ++n) finer.push_back(strides[from[n]] * factor[n]);
    strides = std::move(finer);
  };
  for (LoopOperand& operand : program.operands) cut(operand.strides);
  for (auto* steps : {&program.body, &program.epilogue})
    for (LoopStep& step : *steps)
      if (step.kind == LoopStep::Kind::index) cut(step.index_strides);
  std::vector<bool> reduced;
  for (const size_t old : from) reduced.push_back(old < program.reduced.size() && program.reduced[old]);
  program.reduced = std::move(reduced);
  program.space = space;
  return program;
}

}  // namespace athanor
