#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "athanor/base/error.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/loop_kernels.h"

namespace athanor {
namespace gpu {

int64_t power_of_two(int64_t at_most) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, at_most))));
}

JoiningGroup joining_group(int64_t parts, int64_t results, int64_t room, const GpuTraits& traits) {
  // Parts that an item adds one after the other, at least, and items that share a result, at most: a group's
  // other items read neighbouring results.
  constexpr int64_t least_parts = 4, most_sharing = 32, most_items = 256;
  const int64_t all = power_of_two(std::min({room, traits.max_group_size, most_items}));
  const int64_t items =
      std::min({power_of_two(parts / least_parts), all, most_sharing, traits.grain->side_by_side});
  return {.results = std::min(all / items, power_of_two(2 * results - 1)), .items = items};
}

LoopKernels::LoopKernels(const LoopProgram& program, const GpuTraits& traits)
    : program_(program), traits_(traits), types_(register_types(program)) {
  for (size_t d = 0; d < program.space.size(); ++d)
    (program.reduced[d] ? reduced_ : kept_).push_back(static_cast<int>(d));
  for (int d : kept_) kept_size_ *= extent(d);
  for (int d : reduced_) reduced_size_ *= extent(d);
  wide_ = std::max(kept_size_, int64_t{1}) * std::max(reduced_size_, int64_t{1}) > INT32_MAX;
  for (const LoopOperand& o : program.operands) wide_ |= reaches_far(o);
}

// Whether an element is too far away for 32-bit arithmetic on indices.
bool LoopKernels::reaches_far(const LoopOperand& o) const {
  int64_t far = std::abs(o.offset);
  for (size_t d = 0; d < o.strides.size(); ++d)
    far += std::abs(o.strides[d]) * std::max<int64_t>(0, program_.space[d] - 1);
  return far > INT32_MAX;
}

int64_t LoopKernels::group_limit() const {
  return std::min(traits_.grain->loop_items, traits_.max_group_size);
}

std::vector<int> LoopKernels::outer_kept() const {
  return {kept_.begin(), kept_.empty() ? kept_.end() : kept_.end() - 1};
}

void LoopKernels::unfold(Code& code, const std::string& flat, const std::vector<int>& dims,
                         Names& index) const {
  int64_t below = 1;
  for (size_t n = dims.size(); n-- > 0;) {
    const int d = dims[n];
    std::string value = divided(flat, below);
    if (n > 0) value = remainder(value, extent(d));
    index[static_cast<size_t>(d)] = fmt::format("dim{}", d);
    code.line(fmt::format("const {} dim{} = {};", index_type(), d, value));
    below *= std::max<int64_t>(1, extent(d));  // nothing runs if an extent is 0
  }
}

void LoopKernels::begin_kernel(Code& code, const std::string& name, bool with_scratch) const {
  const auto types = buffer_types(program_);
  std::string parameters;
  for (size_t b = 0; b < types.size(); ++b)
    parameters += fmt::format("{}BUFFER(STORED({}), m{})", b == 0 ? "" : ", ", language_name(types[b]), b);
  if (with_scratch) parameters += std::string(types.empty() ? "" : ", ") + "BUFFER(u8, scratch)";
  code.open(fmt::format("KERNEL void {}({})", name, parameters));
  for (size_t b = 0; b < types.size(); ++b)
    code.line(fmt::format("BIND(STORED({}), m{});", language_name(types[b]), b));
  if (with_scratch) code.line("BIND(u8, scratch);");
}

std::vector<GpuLaunch::Argument> LoopKernels::arguments(bool with_scratch) const {
  std::vector<GpuLaunch::Argument> all;
  for (int b = 0; b < program_.buffers + (with_scratch ? 1 : 0); ++b) all.push_back({b, 0});
  return all;
}

void LoopKernels::compute(Code& code, const Names& index) const {
  write_steps(code, program_, program_.body, 0, index);
  write_stores(code, program_, program_.stores, index);
}

}  // namespace gpu

namespace {

bool uses_f64(const LoopProgram& program) {
  const auto types = gpu::register_types(program);
  return std::find(types.begin(), types.end(), DType::f64) != types.end();
}

}  // namespace

std::vector<GpuCandidate> gpu_loop_candidates(const LoopProgram& program, const GpuTraits& traits) {
  const LoopProgram simple = simplify_loop(program);
  if (!traits.f64 && uses_f64(simple))
    throw Error(ErrorCode::device, "this device has no f64 arithmetic", {}, "Use f32, or another device");
  return {simple.reductions.empty() ? gpu::map_kernel(simple, traits)
                                    : gpu::reduction_kernels(simple, traits)};
}

}  // namespace athanor
