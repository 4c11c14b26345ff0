// How the accumulators of a reduction take an element.
#include "athanor/kernels/gpu/loop_reduction.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

void ReductionKernels::element(Code& code, const Names& index) const {
  compute(code, index);
  accumulate(code, index);
}

void ReductionKernels::accumulate(Code& code, const Names& index) const {
  accumulate(code, index, [&](size_t i) { return fmt::format("r{}", reduction(i).source); });
}

void ReductionKernels::accumulate(Code& code, const Names& index,
                                  const std::function<std::string(size_t)>& source_of) const {
  for (size_t i = 0; i < reductions(); ++i) {
    const LoopReduction& r = reduction(i);
    const std::string acc = fmt::format("acc{}{}", i, of_lane("v")), source = source_of(i);
    if (!is_argmax(r)) {
      code.line(fmt::format("{} = {};", acc, combine(r, acc, source)));
      continue;
    }
    std::string at = "0";  // the index among the reduced elements, in their order
    int64_t below = 1;
    for (size_t n = reduced_.size(); n-- > 0;) {
      at = plus(at, times64(index[static_cast<size_t>(reduced_[n])], below));
      below *= extent(reduced_[n]);
    }
    take_larger(code, r, acc, fmt::format("at{}{}", i, of_lane("v")), source, operand(at));
  }
}

}  // namespace athanor::gpu
