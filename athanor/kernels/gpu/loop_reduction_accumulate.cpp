// Accumulators of a reduction.
#include "athanor/kernels/gpu/loop_reduction.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

void ReductionKernels::declare_accumulators(Code& code) const {
  for (size_t i = 0; i < reductions(); ++i) {
    const LoopReduction& r = reduction(i);
    const std::string array = lanes_ == 1 ? "" : fmt::format("[{}]", lanes_);
    code.line(fmt::format("{} acc{}{};", value_name(r), i, array));
    if (is_argmax(r)) code.line(fmt::format("i64 at{}{};", i, array));
  }
  unrolled(code, "v", lanes_, [&](const std::string& v) {
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("acc{}{} = {};", i, of_lane(v), neutral(r)));
      // Behind all elements, so that the lowest value is taken from here, too.
      if (is_argmax(r)) code.line(fmt::format("at{}{} = {};", i, of_lane(v), literal(INT64_MAX, DType::i64)));
    }
  });
}

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

void ReductionKernels::take_larger(Code& code, const LoopReduction& r, const std::string& acc,
                                   const std::string& at, const std::string& value,
                                   const std::string& value_at) const {
  const bool nans = is_float(value_type(r));
  const std::string larger = nans ? fmt::format("({0} > {1}) | (({0} != {0}) & ({1} == {1}))", value, acc)
                                  : fmt::format("({} > {})", value, acc);
  const std::string same = nans ? fmt::format("(({0} == {1}) | (({0} != {0}) & ({1} != {1})))", value, acc)
                                : fmt::format("({} == {})", value, acc);
  // Selected, not branched to: lanes are unrolled, and a branch in each takes LLVM twice as long.
  code.open("");
  code.line(fmt::format("const bool taken = {} | ({} & ({} < {}));", larger, same, value_at, at));
  code.line(fmt::format("{0} = taken ? {1} : {0};", acc, value));
  code.line(fmt::format("{0} = taken ? {1} : {0};", at, value_at));
  code.close();
}

void ReductionKernels::join(Code& code, const std::string& a, const std::string& a_at, const std::string& b,
                            const std::string& b_at) const {
  for (size_t i = 0; i < reductions(); ++i) {
    const LoopReduction& r = reduction(i);
    const std::string to = fmt::format(fmt::runtime(a), i), from = fmt::format(fmt::runtime(b), i);
    if (is_argmax(r))
      take_larger(code, r, to, fmt::format(fmt::runtime(a_at), i), from, fmt::format(fmt::runtime(b_at), i));
    else
      code.line(fmt::format("{} = {};", to, combine(r, to, from)));
  }
}

std::string ReductionKernels::neutral(const LoopReduction& r) const {
  return reduction_identity(is_argmax(r) ? LoopReduction{Prim::reduce_max, r.source, value_type(r)} : r);
}

}  // namespace athanor::gpu
