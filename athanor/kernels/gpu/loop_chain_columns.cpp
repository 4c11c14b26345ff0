// Sums over the rows of a chain: what each item has of them, and the launch that joins the groups' parts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/loop_chain.h"

namespace athanor::gpu {

// Where the parts of a reduction begin in the scratch memory, in bytes: [reduction][part][column].
int64_t ChainKernel::part_start(size_t l, size_t reduction) const {
  int64_t bytes = 0;
  for (size_t k = 0; k <= l; ++k) {
    if (chain_.roles[k] != RowRole::columns) continue;
    const size_t count = k == l ? reduction : loop(k).reductions.size();
    for (size_t i = 0; i < count; ++i)
      bytes +=
          ceil_div(groups_ * chain_.row() * static_cast<int64_t>(size_of(loop(k).reductions[i].type)), 64) *
          64;
  }
  return bytes;
}

void ChainKernel::declare_columns() {
  for (size_t l = 0; l < chain_.loops.size(); ++l) {
    if (chain_.roles[l] != RowRole::columns) continue;
    for (size_t i = 0; i < loop(l).reductions.size(); ++i) {
      const LoopReduction& r = loop(l).reductions[i];
      for (int64_t k = 0; k < turns_of_item(); ++k) {
        const std::string name = fmt::format("sum{}_{}_{}", l, i, k);
        if (vectors_.width == 1) {
          code_.line(fmt::format("{} {} = {};", language_name(r.type), name, reduction_identity(r)));
          continue;
        }
        code_.line(fmt::format("{} {}[{}];", language_name(r.type), name, vectors_.width));
        code_.line(fmt::format("UNROLL for (int e = 0; e < {}; ++e) {}[e] = {};", vectors_.width, name,
                               reduction_identity(r)));
      }
    }
  }
}

// The first slot of the group adds the sums of the others to its own, and stores them.
void ChainKernel::store_columns() {
  const int64_t width = vectors_.width, all = items_ * slots_;
  const std::string e = width > 1 ? "[e]" : "";
  const auto each = [&](const std::string& line) {
    code_.line((width > 1 ? fmt::format("UNROLL for (int e = 0; e < {}; ++e) ", width) : "") + line);
  };
  const auto shared = [&](const LoopReduction& r, const std::string& slot) {
    return fmt::format("columns_{}[{}{}]", language_name(r.type),
                       width > 1 ? fmt::format("e * {} + ", all) : "", slot);
  };
  for (size_t l = 0; l < chain_.loops.size(); ++l) {
    if (chain_.roles[l] != RowRole::columns) continue;
    for (size_t i = 0; i < loop(l).reductions.size(); ++i)
      for (int64_t k = 0; k < turns_of_item(); ++k) {
        const LoopReduction& r = loop(l).reductions[i];
        const std::string sum = fmt::format("sum{}_{}_{}{}", l, i, k, e);
        code_.open("");
        if (slots_ > 1) {
          code_.line("BARRIER();");
          each(fmt::format("{} = {};", shared(r, "mine"), sum));
          code_.line("BARRIER();");
        }
        code_.line(fmt::format("const int block = {};", plus("LOCAL_ID(0)", k * items_)));
        std::vector<std::string> conditions;
        if (slots_ > 1) conditions.emplace_back("LOCAL_ID(1) == 0");
        if ((k + 1) * items_ > vectors_.blocks)
          conditions.push_back(fmt::format("block < {}", vectors_.blocks));
        if (!conditions.empty()) code_.open(fmt::format("if ({})", fmt::join(conditions, " && ")));
        if (slots_ > 1) {
          code_.open(fmt::format("for (int slot = 1; slot < {}; ++slot)", slots_));
          each(fmt::format("{} = {};", sum,
                           combine(r, sum, shared(r, fmt::format("slot * {} + mine", items_)))));
          code_.close();
        }
        each(fmt::format("((GLOBAL {}*)(scratch + {}))[({})GROUP_ID(0) * {} + {}{}] = {};",
                         language_name(r.type), part_start(l, i), index_type(), chain_.row(),
                         width > 1 ? fmt::format("block * {}", width) : "block", width > 1 ? " + e" : "",
                         sum));
        if (!conditions.empty()) code_.close();
        code_.close();
      }
  }
}

// Each loop's sums have their groups: their second number is the loop's.
void ChainKernel::join_columns() {
  int64_t bytes = 0;  // that an item shares
  for (const auto& [type, count] : arrays(RowRole::columns))
    bytes += count * static_cast<int64_t>(size_of(type));
  const auto [wide, items] = joining_group(groups_, chain_.row(), traits_.local_bytes / bytes, traits_);
  code_ = {};
  GpuLaunch launch;
  launch.name = "join";
  launch.group_size = {wide, items, 1};
  launch.local_bytes = items > 1 ? wide * items * bytes : 0;
  begin_kernel(launch);
  int64_t loops = 0;
  if (items > 1)
    for (const auto& [type, count] : arrays(RowRole::columns))
      for (int64_t i = 0; i < count; ++i)
        code_.line(fmt::format("LOCAL {0} all_{0}_{1}[{2}];", language_name(type), i, wide * items));
  code_.line(fmt::format("const int mine = LOCAL_ID(1) * {} + LOCAL_ID(0);", wide));
  code_.line(fmt::format("const int x = GROUP_ID(0) * {} + LOCAL_ID(0);", wide));
  for (size_t l = 0; l < chain_.loops.size(); ++l) {
    if (chain_.roles[l] != RowRole::columns) continue;
    const LoopProgram& p = loop(l);
    code_.open(fmt::format("if (GROUP_ID(1) == {})", loops++));
    const auto each = [&](const auto& line) {
      for (size_t i = 0; i < p.reductions.size(); ++i) line(i, p.reductions[i]);
    };
    each([&](size_t i, const LoopReduction& r) {
      code_.line(fmt::format("{} acc{} = {};", language_name(r.type), i, reduction_identity(r)));
    });
    code_.open(fmt::format("if (x < {})", chain_.row()));
    code_.open(fmt::format("for (int part = LOCAL_ID(1); part < {}; part += {})", groups_, items));
    each([&](size_t i, const LoopReduction& r) {
      code_.line(fmt::format(
          "acc{0} = {1};", i,
          combine(r, fmt::format("acc{}", i),
                  fmt::format("((GLOBAL {}*)(scratch + {}))[({})part * {} + x]", language_name(r.type),
                              part_start(l, i), index_type(), chain_.row()))));
    });
    code_.close();
    code_.close();
    if (items > 1) {
      each([&](size_t i, const LoopReduction&) {
        code_.line(fmt::format("all_{}[mine] = acc{};", array_of(p, i), i));
      });
      code_.line("BARRIER();");
    }
    code_.open(items > 1 ? fmt::format("if (LOCAL_ID(1) == 0 && x < {})", chain_.row())
                         : fmt::format("if (x < {})", chain_.row()));
    if (items > 1) {
      code_.open(fmt::format("for (int item = 1; item < {}; ++item)", items));
      each([&](size_t i, const LoopReduction& r) {
        code_.line(fmt::format("acc{} = {};", i,
                               combine(r, fmt::format("acc{}", i),
                                       fmt::format("all_{}[item * {} + mine]", array_of(p, i), wide))));
      });
      code_.close();
    }
    const auto first = p.body.size();
    each([&](size_t i, const LoopReduction& r) {
      code_.line(fmt::format("const {} r{} = acc{};", language_name(r.type), first + i, i));
    });
    Names outside(chain_.space().size());
    outside.back() = "x";
    write_steps(code_, p, p.epilogue, static_cast<int>(first + p.reductions.size()), outside);
    write_stores(code_, p, p.epilogue_stores, outside);
    code_.close();
    code_.close();
    result_.scratch_bytes = static_cast<size_t>(part_start(l, p.reductions.size()));
  }
  code_.close();
  launch.groups = {ceil_div(chain_.row(), wide), loops, 1};
  launch.source = code_.text();
  result_.launches.push_back(std::move(launch));
}

}  // namespace athanor::gpu
