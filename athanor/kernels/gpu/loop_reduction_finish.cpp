// Results of a reduction: stored by the epilogue, or kept as partial results for the second launch.
#include "athanor/kernels/gpu/loop_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {

std::vector<ReductionKernels::Partial> ReductionKernels::partials() {
  std::vector<Partial> places;
  int64_t bytes = 0;
  const auto take = [&](DType type) {
    const int64_t at = bytes;
    bytes += ceil_div(parts_ * kept_size_ * static_cast<int64_t>(size_of(type)), 64) * 64;
    return at;
  };
  for (size_t i = 0; i < reductions(); ++i) {
    places.push_back({take(value_type(reduction(i))), -1});
    if (is_argmax(reduction(i))) places.back().indices = take(DType::i64);
  }
  result_.scratch_bytes = static_cast<size_t>(bytes);
  return places;
}

std::string ReductionKernels::scratch(DType type, int64_t bytes) {
  return fmt::format("((GLOBAL {}*){})", language_name(type),
                     bytes == 0 ? "scratch" : fmt::format("(scratch + {})", bytes));
}

void ReductionKernels::finish(Code& code, const std::string& result, const std::string& lane,
                              const Names& index) {
  if (parts_ > 1) {
    const auto places = partials();
    code.line(fmt::format("const i64 place = (i64)part * {} + {};", kept_size_, result));
    for (size_t i = 0; i < reductions(); ++i) {
      const LoopReduction& r = reduction(i);
      code.line(fmt::format("{}[place] = acc{}{};", scratch(value_type(r), places[i].values), i, lane));
      if (is_argmax(r))
        code.line(fmt::format("{}[place] = at{}{};", scratch(DType::i64, places[i].indices), i, lane));
    }
    return;
  }
  epilogue(code, lane, index);
}

bool ReductionKernels::epilogue_reads_body() const {
  const auto in_body = [&](int r) { return r >= 0 && r < static_cast<int>(program_.body.size()); };
  return std::ranges::any_of(
             program_.epilogue,
             [&](const LoopStep& e) { return in_body(e.a) || in_body(e.b) || in_body(e.c); }) ||
         std::ranges::any_of(program_.epilogue_stores, in_body, &LoopStore::source);
}

std::optional<GpuLaunch::Joining> ReductionKernels::joining() {
  if (epilogue_reads_body() || std::ranges::any_of(program_.reductions, is_argmax)) return {};
  GpuLaunch::Joining all;
  LoopProgram& p = all.program;
  p.space = {parts_};
  p.reduced = {true};
  const std::vector<Partial> places = partials();
  all.parts = static_cast<size_t>(program_.buffers);
  all.bytes = static_cast<int64_t>(result_.scratch_bytes);
  for (size_t i = 0; i < reductions(); ++i) {
    LoopStep load;
    load.kind = LoopStep::Kind::load;
    load.type = value_type(reduction(i));
    load.operand = static_cast<int>(i);
    p.operands.push_back({static_cast<int>(i), load.type, 0, {1}});
    p.body.push_back(std::move(load));
    p.reductions.push_back(reduction(i));
    p.reductions.back().source = static_cast<int>(i);
    all.places.push_back({program_.buffers, places[i].values});
  }
  const auto operand = [&](int number) {
    LoopOperand one = program_.operands[static_cast<size_t>(number)];
    all.places.push_back({one.buffer, 0});
    one.buffer = static_cast<int>(all.places.size()) - 1;
    one.strides = {0};
    p.operands.push_back(std::move(one));
    return static_cast<int>(p.operands.size()) - 1;
  };
  add_epilogue(p, program_, operand, [](const Ints&) { return Ints{0}; });
  p.buffers = static_cast<int>(all.places.size());
  return all;
}

void ReductionKernels::epilogue(Code& code, const std::string& lane, const Names& index) const {
  Names outside = index;  // index 0 along the reduced dimensions
  for (int d : reduced_) outside[static_cast<size_t>(d)].clear();
  const auto first = static_cast<int>(program_.body.size());
  // A register of the body that is read here is its value at index 0 along the reduced dimensions.
  if (epilogue_reads_body()) write_steps(code, program_, program_.body, 0, outside);
  declare_results(code, first, lane);
  write_steps(code, program_, program_.epilogue, first + static_cast<int>(reductions()), outside);
  write_stores(code, program_, program_.epilogue_stores, outside);
}

}  // namespace athanor::gpu
