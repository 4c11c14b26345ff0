// Loops without reductions in one launch.
#include "athanor/kernels/gpu/joined_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor {
namespace gpu {

JoinedLoops::JoinedLoops(std::span<const LoopProgram> programs, const GpuTraits& traits)
    : programs_(programs), pattern_(programs.front()) {
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
  // The pattern's strides come from a program with a dimension. The longest program decides on vectors.
  for (const LoopProgram& program : programs)
    if (program.iterations() == largest) pattern_ = program;
  for (const LoopProgram& program : programs)
    if (pattern_.space.empty()) pattern_ = program;
  name_buffers();
  for (const VectorRows& rows : vector_rows(pattern_, traits))
    if (rows.width <= each_ && !rows.begins_before()) width_ = std::max(width_, rows.width);
  checks_ = width_ > 1 || std::ranges::any_of(programs, [&](const LoopProgram& program) {
              return program.iterations() % (items_ * each_) != 0;
            });
}

void JoinedLoops::name_buffers() {
  std::map<std::vector<int>, int> names;
  for (size_t o = 0; o < pattern_.operands.size(); ++o) {
    std::vector<int> buffers;
    for (const LoopProgram& program : programs_) buffers.push_back(program.operands[o].buffer);
    const auto [it, fresh] = names.emplace(buffers, static_cast<int>(bound_.size()));
    if (fresh) bound_.push_back(std::move(buffers));
    pattern_.operands[o].buffer = it->second;
  }
  pattern_.buffers = static_cast<int>(bound_.size());
}

GpuCandidate JoinedLoops::run() {
  GpuLaunch launch;
  launch.name = "joined";
  open_kernel(launch);
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

void JoinedLoops::open_kernel(GpuLaunch& launch) {
  std::vector<DType> types(static_cast<size_t>(programs_.front().buffers), DType::u8);
  for (const LoopProgram& program : programs_)
    for (const LoopOperand& o : program.operands) types[static_cast<size_t>(o.buffer)] = o.dtype;
  std::string parameters;
  for (size_t b = 0; b < types.size(); ++b) {
    parameters +=
        fmt::format("{}BUFFER(STORED({}), buffer{})", b == 0 ? "" : ", ", language_name(types[b]), b);
    launch.arguments.push_back({static_cast<int>(b), 0});
  }
  code_.open(fmt::format("KERNEL void {}({})", launch.name, parameters));
  for (size_t b = 0; b < types.size(); ++b)
    code_.line(fmt::format("BIND(STORED({}), buffer{});", language_name(types[b]), b));
}

void JoinedLoops::declare_loop() {
  const auto types = buffer_types(pattern_);
  code_.line("const i32 group = GROUP_ID(0);");
  if (checks_) code_.line(fmt::format("{} size = {};", index_type_, programs_.front().iterations()));
  for (size_t m = 0; m < bound_.size(); ++m)
    code_.line(
        fmt::format("GLOBAL STORED({}) *m{} = buffer{};", language_name(types[m]), m, bound_[m].front()));
}

// Selections, not branches: a CPU's compiler moves them out of its loop over work-items and vectorises that
// loop.
void JoinedLoops::choose_loop(GpuLaunch& launch) {
  declare_loop();
  code_.line("i32 first = 0;");
  int64_t groups = 0;
  for (size_t p = 0; p < programs_.size(); ++p) {
    if (p > 0) {
      const std::string here = fmt::format("group >= {}", groups);
      code_.line(fmt::format("first = {} ? {} : first;", here, groups));
      if (checks_) code_.line(fmt::format("size = {} ? {} : size;", here, programs_[p].iterations()));
      for (size_t m = 0; m < bound_.size(); ++m)
        if (bound_[m][p] != bound_[m][p - 1])
          code_.line(fmt::format("m{0} = {1} ? buffer{2} : m{0};", m, here, bound_[m][p]));
    }
    groups += ceil_div(programs_[p].iterations(), items_ * each_);
  }
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
