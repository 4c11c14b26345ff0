// Loops without reductions in one launch.
#include "athanor/kernels/gpu/joined_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor {
namespace gpu {
namespace {

// Its strides come from a program with a dimension. The longest program decides on vectors.
const LoopProgram& pattern_of(std::span<const LoopProgram> programs) {
  return *std::ranges::max_element(programs, {}, [](const LoopProgram& program) {
    return std::pair(!program.space.empty(), program.iterations());
  });
}

}  // namespace

JoinedLoops::JoinedLoops(std::span<const LoopProgram> programs, const GpuTraits& traits)
    : programs_(programs), pattern_(pattern_of(programs)), buffers_(programs, pattern_, traits) {
  int64_t largest = 1, far = 0, all = 0;
  for (const LoopProgram& program : programs) {
    all += program.iterations();
    largest = std::max(largest, program.iterations());
    for (const LoopOperand& o : program.operands)
      far = std::max(
          far, std::abs(o.offset) + (o.strides.empty() ? 0 : std::abs(o.strides[0])) * program.iterations());
  }
  const auto enough = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(largest)));
  items_ = std::min({traits.grain->joined_items, traits.max_group_size, enough});
  // On a CPU, starting a group takes as long as thousands of elements. On a GPU, every work-item has to
  // choose its loop, so it computes several elements, as many as leave each unit some groups.
  constexpr int64_t groups_of_unit = 16, most_elements = 16;
  const int64_t room = all / (items_ * groups_of_unit * traits.compute_units);
  each_ = traits.grain->joined_elements == 1
              ? 1
              : std::clamp<int64_t>(std::bit_floor(static_cast<uint64_t>(room)),
                                    traits.grain->joined_elements, most_elements);
  each_ = std::min(each_, enough);
  index_type_ = std::max(far, largest) > INT32_MAX - items_ * each_ ? "i64" : "i32";
  for (const VectorRows& rows : vector_rows(pattern_, traits))
    if (rows.width <= each_ && !rows.begins_before()) width_ = std::max(width_, rows.width);
  checks_ = width_ > 1 || std::ranges::any_of(programs, [&](const LoopProgram& program) {
              return program.iterations() % (items_ * each_) != 0;
            });
}

GpuCandidate JoinedLoops::run() {
  GpuLaunch launch;
  launch.name = "joined";
  buffers_.open_kernel(code_, launch);
  choose_loop(launch);
  code_.line(fmt::format("const {0} at = ({0})(group - first) * {1} + LOCAL_ID(0){2};", index_type_,
                         items_ * each_, width_ == 1 ? "" : fmt::format(" * {}", width_)));
  const int64_t turns = each_ / width_;
  const std::string flat = turns == 1 ? "at" : "flat";
  if (turns > 1) {
    code_.open(fmt::format("UNROLL for (int turn = 0; turn < {}; ++turn)", turns));
    code_.line(fmt::format("const {} flat = at + turn * {};", index_type_, items_ * width_));
  }
  compute(flat);
  if (turns > 1) code_.close();
  return finish(launch, "loops");
}

GpuCandidate JoinedLoops::finish(GpuLaunch& launch, const char* what) {
  code_.close();
  launch.source = code_.text();
  launch.group_size = {items_, 1, 1};
  return {fmt::format("{} {}", programs_.size(), what), {}, 0, {std::move(launch)}};
}

// Selections, not branches: a CPU's compiler moves them out of its loop over work-items and vectorises that
// loop.
void JoinedLoops::choose_loop(GpuLaunch& launch) {
  code_.line("const i32 group = GROUP_ID(0);");
  if (checks_) code_.line(fmt::format("{} size = {};", index_type_, programs_.front().iterations()));
  if (buffers_.table())
    code_.line("i32 loop = 0;");
  else
    buffers_.declare(code_, "");
  code_.line("i32 first = 0;");
  int64_t groups = 0;
  for (size_t p = 0; p < programs_.size(); ++p) {
    if (p > 0) {
      const std::string here = fmt::format("group >= {}", groups);
      code_.line(fmt::format("first = {} ? {} : first;", here, groups));
      if (checks_) code_.line(fmt::format("size = {} ? {} : size;", here, programs_[p].iterations()));
      if (buffers_.table()) code_.line(fmt::format("loop = {} ? {} : loop;", here, p));
      for (const size_t m : buffers_.changed(p, p - 1))
        code_.line(fmt::format("m{0} = {1} ? buffer{2} : m{0};", m, here, buffers_.buffer(m, p)));
    }
    groups += ceil_div(programs_[p].iterations(), items_ * each_);
  }
  if (buffers_.table()) buffers_.declare(code_, "loop");
  launch.groups = {groups, 1, 1};
}

// Computes an element, or a vector of neighbours.
void JoinedLoops::compute(const std::string& flat) {
  const std::vector<std::string> index(pattern_.space.size(), flat);
  if (width_ > 1) return write_vector(code_, pattern_, {width_, "size"}, index_type_, index);
  if (checks_) code_.open(fmt::format("if ({} < size)", flat));
  write_steps(code_, pattern_, pattern_.body, 0, index);
  write_stores(code_, pattern_, pattern_.stores, index);
  if (checks_) code_.close();
}

}  // namespace gpu

GpuCandidate gpu_joined_loops(std::span<const LoopProgram> programs, const GpuTraits& traits) {
  for (const DType type : gpu::register_types(programs.front()))
    if (type == DType::f64 && !traits.f64)
      throw Error(ErrorCode::device, "this device has no f64 arithmetic", {}, "Use f32, or another device");
  if (!programs.front().reductions.empty()) return gpu::JoinedReductions(programs, traits).run();
  return gpu::JoinedLoops(programs, traits).run();
}

}  // namespace athanor
