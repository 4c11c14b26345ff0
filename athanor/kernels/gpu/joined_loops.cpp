// Several loops in one launch. Each work-group finds its loop by its number and takes that loop's extent and
// buffers. From there on, all loops are the same kernel. A loop that reduces has one group.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <span>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/loop_kernels.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor {
namespace {

using gpu::Code;

constexpr int64_t most_elements = 16;

class JoinedLoops {
 public:
  JoinedLoops(std::span<const LoopProgram> programs, const GpuTraits& traits)
      : programs_(programs), pattern_(programs.front()) {
    int64_t largest = 1, far = 0, all = 0;
    for (const LoopProgram& program : programs) {
      all += program.iterations();
      largest = std::max(largest, program.iterations());
      for (const LoopOperand& o : program.operands)
        far = std::max(far, std::abs(o.offset) +
                                (o.strides.empty() ? 0 : std::abs(o.strides[0])) * program.iterations());
    }
    const auto enough = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(largest)));
    items_ = std::min({traits.grain->joined_items, traits.max_group_size, enough});
    // On a CPU, starting a group takes as long as thousands of elements. On a GPU, every work-item has to
    // choose its loop, so it computes several elements, as many as leave each unit some groups.
    constexpr int64_t groups_of_unit = 16;
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
    for (const gpu::VectorRows& rows : gpu::vector_rows(pattern_, traits))
      if (rows.width <= each_ && !rows.begins_before()) width_ = std::max(width_, rows.width);
    checks_ = width_ > 1 || std::ranges::any_of(programs, [&](const LoopProgram& program) {
                return program.iterations() % (items_ * each_) != 0;
              });
  }

  GpuCandidate run() {
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
    code_.close();
    launch.source = code_.text();
    launch.group_size = {items_, 1, 1};
    return {fmt::format("{} loops", programs_.size()), {}, 0, {std::move(launch)}};
  }

 protected:
  // The pattern's buffers are names for the chosen loop's buffers; `bound_` has, for each name, its buffer in
  // every loop.
  void name_buffers() {
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

  void open_kernel(GpuLaunch& launch) {
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

  // Computes an element, or a vector of neighbours.
  void compute(const std::string& flat) {
    const std::vector<std::string> index(pattern_.space.size(), flat);
    if (width_ > 1) return gpu::write_vector(code_, pattern_, {width_, "size"}, index_type_, index);
    if (checks_) code_.open(fmt::format("if ({} < size)", flat));
    gpu::write_steps(code_, pattern_, pattern_.body, 0, index);
    gpu::write_stores(code_, pattern_, pattern_.stores, index);
    if (checks_) code_.close();
  }

  // The variables for the chosen loop's extent and buffers. They are those of the first one.
  void declare_loop() {
    const auto types = gpu::buffer_types(pattern_);
    code_.line("const i32 group = GROUP_ID(0);");
    if (checks_) code_.line(fmt::format("{} size = {};", index_type_, programs_.front().iterations()));
    for (size_t m = 0; m < bound_.size(); ++m)
      code_.line(
          fmt::format("GLOBAL STORED({}) *m{} = buffer{};", language_name(types[m]), m, bound_[m].front()));
  }

  // Selections, not branches: a CPU's compiler moves them out of its loop over work-items and vectorises that
  // loop.
  void choose_loop(GpuLaunch& launch) {
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

  std::span<const LoopProgram> programs_;
  LoopProgram pattern_;
  std::vector<std::vector<int>> bound_;  // [name][program]
  int64_t items_ = 1, each_ = 1;         // work-items of a group, elements of an item
  int64_t width_ = 1;                    // elements of a vector
  // Whether items may lie beyond their loop. Before that branch Clang keeps the result of every comparison
  // with a loop's first group for the choices behind it: of many loops, more than a wave's scalar registers.
  bool checks_ = true;
  std::string index_type_;
  Code code_;
};

class JoinedReductions : JoinedLoops {
 public:
  JoinedReductions(std::span<const LoopProgram> programs, const GpuTraits& traits)
      : JoinedLoops(programs, traits) {
    int64_t bytes = 0;  // of local memory for each item
    for (const LoopReduction& r : pattern_.reductions) bytes += static_cast<int64_t>(size_of(r.type));
    // A power of two, because items join in halves.
    items_ = gpu::power_of_two(std::min({items_, traits.grain->row_items, traits.local_bytes / bytes}));
    each_ = width_ = 1;
    checks_ = true;
  }

  GpuCandidate run() {
    GpuLaunch launch;
    launch.name = "joined_reductions";
    open_kernel(launch);
    if (items_ > 1)
      for (size_t i = 0; i < pattern_.reductions.size(); ++i) {
        const LoopReduction& r = pattern_.reductions[i];
        code_.line(fmt::format("LOCAL {} shared{}[{}];", language_name(r.type), i, items_));
        launch.local_bytes += items_ * static_cast<int64_t>(size_of(r.type));
      }
    branch_to_loop();
    launch.groups = {static_cast<int64_t>(programs_.size()), 1, 1};
    each_reduction("{0} acc{1} = {2};", [](const LoopReduction& r) { return gpu::reduction_identity(r); });
    code_.open(fmt::format("for (i32 x = LOCAL_ID(0); x < size; x += {})", items_));
    gpu::write_steps(code_, pattern_, pattern_.body, 0, {"x"});
    each_reduction("acc{1} = {2};", [&](const LoopReduction& r) {
      return gpu::combine(r, acc(r), fmt::format("r{}", r.source));
    });
    code_.close();
    if (items_ > 1) join_items();
    if (items_ > 1) code_.open("if (LOCAL_ID(0) == 0)");
    finish();
    if (items_ > 1) code_.close();
    code_.close();
    launch.source = code_.text();
    launch.group_size = {items_, 1, 1};
    return {fmt::format("{} reductions", programs_.size()), {}, 0, {std::move(launch)}};
  }

 private:
  // A branch, not selections: Clang would keep each comparison, for the choice of the result's buffer behind
  // the loop over elements, in more registers than a wave has.
  void branch_to_loop() {
    declare_loop();
    code_.open("switch (group)");
    for (size_t p = 1; p < programs_.size(); ++p) {
      std::string text = fmt::format("case {}: size = {};", p, programs_[p].iterations());
      for (size_t m = 0; m < bound_.size(); ++m)
        if (bound_[m][p] != bound_[m].front()) text += fmt::format(" m{} = buffer{};", m, bound_[m][p]);
      code_.line(text + " break;");
    }
    code_.close();
  }

  std::string acc(const LoopReduction& r) const {
    return fmt::format("acc{}", &r - pattern_.reductions.data());
  }

  // A line for each reduction: {0} stands for its type, {1} for its number, {2} for what `text` says.
  template <class Text>
  void each_reduction(const char* line, const Text& text) {
    for (size_t i = 0; i < pattern_.reductions.size(); ++i) {
      const LoopReduction& r = pattern_.reductions[i];
      code_.line(fmt::format(fmt::runtime(line), language_name(r.type), i, text(r)));
    }
  }

  void join_items() {
    each_reduction("shared{1}[LOCAL_ID(0)] = {2};", [&](const LoopReduction& r) { return acc(r); });
    code_.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", items_ / 2));
    code_.line("BARRIER();");
    code_.open("if (LOCAL_ID(0) < reach)");
    each_reduction("acc{1} = {2};", [&](const LoopReduction& r) {
      return gpu::combine(r, acc(r),
                          fmt::format("shared{}[LOCAL_ID(0) + reach]", &r - pattern_.reductions.data()));
    });
    each_reduction("shared{1}[LOCAL_ID(0)] = {2};", [&](const LoopReduction& r) { return acc(r); });
    code_.close();
    code_.close();
  }

  void finish() {
    const auto first = static_cast<int>(pattern_.body.size()),
               reductions = static_cast<int>(pattern_.reductions.size());
    for (int i = 0; i < reductions; ++i)
      code_.line(fmt::format("const {} r{} = acc{};",
                             language_name(pattern_.reductions[static_cast<size_t>(i)].type), first + i, i));
    gpu::write_steps(code_, pattern_, pattern_.epilogue, first + reductions, {""});
    gpu::write_stores(code_, pattern_, pattern_.epilogue_stores, {""});
  }
};

}  // namespace

GpuCandidate gpu_joined_loops(std::span<const LoopProgram> programs, const GpuTraits& traits) {
  for (const DType type : gpu::register_types(programs.front()))
    if (type == DType::f64 && !traits.f64)
      throw Error(ErrorCode::device, "this device has no f64 arithmetic", {}, "Use f32, or another device");
  if (!programs.front().reductions.empty()) return JoinedReductions(programs, traits).run();
  return JoinedLoops(programs, traits).run();
}

}  // namespace athanor
