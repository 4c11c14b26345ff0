// The launch of a chain that walks rows.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/loop_chain.h"

namespace athanor::gpu {
namespace {

// The first items of a row that join what others have: about the square root of their number, so that each
// reads few numbers.
int64_t joining_items(int64_t items) {
  return int64_t{1} << (std::bit_width(static_cast<uint64_t>(items)) / 2);
}

}  // namespace

std::map<DType, int64_t> ChainKernel::arrays(RowRole role) const {
  std::map<DType, int64_t> most;
  for (size_t l = 0; l < chain_.loops.size(); ++l) {
    std::map<DType, int64_t> here;
    if (chain_.roles[l] == role)
      for (const LoopReduction& r : loop(l).reductions) ++here[r.type];
    for (const auto& [type, count] : here) most[type] = std::max(most[type], count);
  }
  return most;
}

std::string ChainKernel::array_of(const LoopProgram& p, size_t reduction) {
  const auto before = p.reductions.begin() + static_cast<std::ptrdiff_t>(reduction);
  const DType type = p.reductions[reduction].type;
  return fmt::format(
      "{}_{}", language_name(type),
      std::count_if(p.reductions.begin(), before, [&](const LoopReduction& r) { return r.type == type; }));
}

int64_t ChainKernel::local_bytes() const {
  int64_t bytes = 0;
  if (items_ > 1)
    for (const auto& [type, count] : arrays(RowRole::rows))
      bytes += count * (items_ + joining_items(items_)) * slots_ * static_cast<int64_t>(size_of(type));
  if (slots_ > 1)
    for (const auto& [type, count] : arrays(RowRole::columns))
      bytes += items_ * slots_ * vectors_.width * static_cast<int64_t>(size_of(type));
  return bytes;
}

GpuCandidate ChainKernel::run() {
  write_rows();
  if (columns_) join_columns();
  result_.name = fmt::format("chain of {} loops", chain_.loops.size());
  result_.parameters = {{"items", items_}, {"rows", slots_}, {"parts", columns_ ? groups_ : 1}};
  return std::move(result_);
}

void ChainKernel::begin_kernel(GpuLaunch& launch) {
  std::vector<Parameter> parameters;
  for (size_t b = 0; b < types_.size(); ++b)
    parameters.push_back({fmt::format("m{}", b), fmt::format("STORED({})", language_name(types_[b]))});
  if (columns_) parameters.push_back({"scratch", "u8"});
  open_kernel(code_, launch.name, parameters, false);
  for (size_t b = 0; b < parameters.size(); ++b) launch.arguments.push_back({static_cast<int>(b), 0});
}

void ChainKernel::write_rows() {
  GpuLaunch launch;
  launch.name = "chain";
  launch.groups = {groups_, 1, 1};
  launch.group_size = {items_, slots_, 1};
  begin_kernel(launch);
  declare_local();
  code_.line(fmt::format("const int mine = LOCAL_ID(1) * {} + LOCAL_ID(0);", items_));
  if (columns_) declare_columns();
  if (turns_ > 1) code_.open(fmt::format("for (int turn = 0; turn < {}; ++turn)", turns_));
  const std::string first = turns_ == 1 ? fmt::format("({})GROUP_ID(0)", index_type())
                                        : fmt::format("(({})GROUP_ID(0) * {} + turn)", index_type(), turns_);
  const std::string row = fmt::format("{} * {} + LOCAL_ID(1)", first, slots_);
  // All items of a group must reach its barriers. Those behind the last row have no elements.
  if (ragged_) {
    code_.line(fmt::format("const {} wanted = {};", index_type(), row));
    code_.line(fmt::format("const bool live = wanted < {};", chain_.rows()));
  }
  code_.line(fmt::format("const {} row = {};", index_type(),
                         ragged_ ? fmt::format("MIN(wanted, {})", chain_.rows() - 1) : row));
  unfold_row();
  kept_.assign(types_.size(), "");
  for (size_t l = 0; l < chain_.loops.size(); ++l) write_loop(l);
  if (turns_ > 1) code_.close();
  if (columns_) store_columns();
  code_.close();
  launch.source = code_.text();
  launch.local_bytes = local_bytes();
  result_.launches.push_back(std::move(launch));
}

void ChainKernel::declare_local() {
  if (items_ > 1)
    for (const auto& [type, count] : arrays(RowRole::rows))
      for (int64_t i = 0; i < count; ++i) {
        code_.line(fmt::format("LOCAL {0} all_{0}_{1}[{2}];", language_name(type), i, items_ * slots_));
        code_.line(fmt::format("LOCAL {0} few_{0}_{1}[{2}];", language_name(type), i,
                               joining_items(items_) * slots_));
      }
  if (slots_ > 1)
    for (const auto& [type, count] : arrays(RowRole::columns))
      code_.line(
          fmt::format("LOCAL {0} columns_{0}[{1}];", language_name(type), items_ * slots_ * vectors_.width));
}

void ChainKernel::unfold_row() {
  const Ints& space = chain_.space();
  index_.assign(space.size(), "");
  int64_t below = 1;
  for (size_t d = space.size() - 1; d-- > 0;) {
    std::string value = divided("row", below);
    if (d > 0) value = remainder(value, space[d]);
    index_[d] = fmt::format("dim{}", d);
    code_.line(fmt::format("const {} dim{} = {};", index_type(), d, value));
    below *= space[d];
  }
}

// What a loop loads of the results of rows that earlier loops have in registers.
std::vector<std::string> ChainKernel::known(size_t l) const {
  std::vector<std::string> held;
  for (const LoopOperand& o : loop(l).operands) held.push_back(kept_[static_cast<size_t>(o.buffer)]);
  return held;
}

void ChainKernel::write_loop(size_t l) {
  const LoopProgram& p = loop(l);
  const bool rows = chain_.roles[l] == RowRole::rows;
  const auto types = register_types(p);
  if (rows)
    for (const LoopStore& s : p.epilogue_stores) {
      const auto b = static_cast<size_t>(p.operands[static_cast<size_t>(s.operand)].buffer);
      code_.line(fmt::format("{} kept{};", language_name(types[static_cast<size_t>(s.source)]), b));
    }
  code_.open("");
  if (rows)
    for (size_t i = 0; i < p.reductions.size(); ++i)
      code_.line(fmt::format("{} acc{} = {};", language_name(p.reductions[i].type), i,
                             reduction_identity(p.reductions[i])));
  if (ragged_) code_.open("if (live)");
  if (chain_.roles[l] == RowRole::columns) {
    walk_columns(l);
  } else {
    code_.open(fmt::format("for ({0} block = LOCAL_ID(0); block < {1}; block += {2})", index_type(),
                           vectors_.blocks, items_));
    element(l, "block", [&](const Names&) {
      for (size_t i = 0; rows && i < p.reductions.size(); ++i)
        code_.line(fmt::format(
            "acc{0} = {1};", i,
            combine(p.reductions[i], fmt::format("acc{}", i), fmt::format("r{}", p.reductions[i].source))));
    });
    code_.close();
  }
  if (ragged_) code_.close();
  if (rows) finish_row(l);
  code_.close();
}

// The elements of a block of the row.
void ChainKernel::element(size_t l, const std::string& block, const WithElement& also) {
  const LoopProgram& p = loop(l);
  Names inside = index_;
  if (vectors_.width > 1) {
    inside.back() = "x";
    return write_block(code_, p, vectors_, index_type(), inside, block, also, known(l));
  }
  inside.back() = block;
  write_steps(code_, p, p.body, 0, inside, known(l));
  write_stores(code_, p, p.stores, inside);
  also(inside);
}

void ChainKernel::walk_columns(size_t l) {
  const LoopProgram& p = loop(l);
  const int64_t turns = turns_of_item();
  for (int64_t k = 0; k < turns; ++k) {
    code_.open("");
    code_.line(fmt::format("const {} block = {};", index_type(), plus("LOCAL_ID(0)", k * items_)));
    const bool guarded = (k + 1) * items_ > vectors_.blocks;
    if (guarded) code_.open(fmt::format("if (block < {})", vectors_.blocks));
    element(l, "block", [&](const Names&) {
      for (size_t i = 0; i < p.reductions.size(); ++i) {
        const std::string sum = fmt::format("sum{}_{}_{}{}", l, i, k, vectors_.width > 1 ? "[e]" : "");
        code_.line(fmt::format("{} = {};", sum,
                               combine(p.reductions[i], sum, fmt::format("r{}", p.reductions[i].source))));
      }
    });
    if (guarded) code_.close();
    code_.close();
  }
}

void ChainKernel::finish_row(size_t l) {
  const LoopProgram& p = loop(l);
  if (items_ > 1) join_items(l);
  const auto first = p.body.size();
  for (size_t i = 0; i < p.reductions.size(); ++i)
    code_.line(fmt::format("const {} r{} = acc{};", language_name(p.reductions[i].type), first + i, i));
  Names outside = index_;
  write_steps(code_, p, p.epilogue, static_cast<int>(first + p.reductions.size()), outside, known(l));
  keep_results(l);
}

// In two steps, in an order that does not change from run to run. All items of the row get the result.
void ChainKernel::join_items(size_t l) {
  const LoopProgram& p = loop(l);
  const int64_t joining = joining_items(items_);
  const auto each = [&](const auto& line) {
    for (size_t i = 0; i < p.reductions.size(); ++i) line(i, p.reductions[i], array_of(p, i));
  };
  const auto gather = [&](size_t i, const LoopReduction& r, const std::string& array, const std::string& from,
                          int64_t count, int64_t step) {
    code_.line(fmt::format("acc{} = {}[{}];", i, array, from));
    code_.open(fmt::format("UNROLL for (int q = 1; q < {}; ++q)", count));
    code_.line(fmt::format(
        "acc{} = {};", i,
        combine(r, fmt::format("acc{}", i), fmt::format("{}[{} + {}]", array, from, times("q", step)))));
    code_.close();
  };
  each([&](size_t i, const auto&, const std::string& array) {
    code_.line(fmt::format("all_{}[mine] = acc{};", array, i));
  });
  code_.line("BARRIER();");
  code_.open(fmt::format("if (LOCAL_ID(0) < {})", joining));
  each([&](size_t i, const LoopReduction& r, const std::string& array) {
    gather(i, r, "all_" + array, "mine", items_ / joining, joining);
    code_.line(fmt::format("few_{}[LOCAL_ID(1) * {} + LOCAL_ID(0)] = acc{};", array, joining, i));
  });
  code_.close();
  code_.line("BARRIER();");
  each([&](size_t i, const LoopReduction& r, const std::string& array) {
    gather(i, r, "few_" + array, fmt::format("LOCAL_ID(1) * {}", joining), joining, 1);
  });
}

void ChainKernel::keep_results(size_t l) {
  const LoopProgram& p = loop(l);
  for (const LoopStore& s : p.epilogue_stores) {
    const auto b = static_cast<size_t>(p.operands[static_cast<size_t>(s.operand)].buffer);
    code_.line(fmt::format("kept{} = r{};", b, s.source));
    kept_[b] = fmt::format("kept{}", b);
  }
  code_.open(ragged_ ? "if (live && LOCAL_ID(0) == 0)" : "if (LOCAL_ID(0) == 0)");
  write_stores(code_, p, p.epilogue_stores, index_);
  code_.close();
}

}  // namespace athanor::gpu
