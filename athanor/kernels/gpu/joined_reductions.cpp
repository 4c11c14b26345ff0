// Loops that reduce all their elements in one launch.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/joined_loops.h"
#include "athanor/kernels/gpu/loop_kernels.h"

namespace athanor::gpu {

JoinedReductions::JoinedReductions(std::span<const LoopProgram> programs, const GpuTraits& traits)
    : JoinedLoops(programs, traits), Accumulators(pattern_) {
  items_ = power_of_two(std::min({items_, traits.grain->row_items, traits.local_bytes / shared_bytes()}));
  checks_ = true;
}

GpuCandidate JoinedReductions::run() {
  GpuLaunch launch;
  launch.name = "joined_reductions";
  buffers_.open_kernel(code_, launch);
  if (items_ > 1) {
    declare_shared(code_, items_);
    launch.local_bytes = items_ * shared_bytes();
  }
  branch_to_loop();
  launch.groups = {static_cast<int64_t>(programs_.size()), 1, 1};
  declare_accumulators(code_, 1);
  code_.open(fmt::format("for (i32 x = LOCAL_ID(0); x < size; x += {})", items_));
  write_steps(code_, pattern_, pattern_.body, 0, {"x"});
  for (size_t i = 0; i < reductions(); ++i) {
    const std::string acc = fmt::format("acc{}", i);
    code_.line(
        fmt::format("{} = {};", acc, combine(reduction(i), acc, fmt::format("r{}", reduction(i).source))));
  }
  code_.close();
  if (items_ > 1) join_items(code_, {.items = items_, .item = "LOCAL_ID(0)", .place = "LOCAL_ID(0)"}, "");
  const auto first = static_cast<int>(pattern_.body.size());
  declare_results(code_, first, "");
  write_steps(code_, pattern_, pattern_.epilogue, first + static_cast<int>(reductions()), {""});
  write_stores(code_, pattern_, pattern_.epilogue_stores, {""});
  return finish(launch, "reductions");
}

// A branch, not selections: Clang would keep each comparison, for the choice of the result's buffer behind
// the loop over elements, in more registers than a wave has.
void JoinedReductions::branch_to_loop() {
  code_.line("const i32 group = GROUP_ID(0);");
  code_.line(fmt::format("{} size = {};", index_type_, programs_.front().iterations()));
  buffers_.declare(code_, "group");
  code_.open("switch (group)");
  for (size_t p = 1; p < programs_.size(); ++p) {
    std::string text = fmt::format("case {}: size = {};", p, programs_[p].iterations());
    for (const size_t m : buffers_.changed(p, 0))
      text += fmt::format(" m{} = buffer{};", m, buffers_.buffer(m, p));
    code_.line(text + " break;");
  }
  code_.close();
}

}  // namespace athanor::gpu
