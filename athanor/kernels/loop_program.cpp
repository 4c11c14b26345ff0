#include "athanor/kernels/loop_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "athanor/kernels/walked_strides.h"

namespace athanor {

static constexpr std::array<std::string_view, static_cast<size_t>(Prim::none) + 1> prim_names = {
    "input",
    "constant",
    "iota",
    "neg",
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sqrt",
    "floor",
    "abs",
    "cast",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "pow",
    "max",
    "min",
    "less",
    "equal",
    "bit_and",
    "bit_or",
    "bit_xor",
    "where",
    "random_uniform",
    "reshape",
    "permute",
    "broadcast",
    "slice",
    "unfold",
    "pad",
    "concat",
    "fold",
    "sum",
    "prod",
    "reduce_max",
    "reduce_min",
    "argmax",
    "batch_matmul",
    "take_along",
    "scatter_add",
    "cumsum",
    "argsort",
    "to",
    "none"};
static_assert(prim_names.back() == "none");

std::string_view to_string(Prim prim) { return prim_names[static_cast<size_t>(prim)]; }

static int64_t product(const Ints& space) {
  return std::accumulate(space.begin(), space.end(), int64_t{1}, std::multiplies<>());
}

int64_t LoopProgram::iterations() const { return product(space); }

int64_t LoopProgram::flops() const {
  const auto arithmetic = [](const std::vector<LoopStep>& steps) {
    return std::count_if(steps.begin(), steps.end(),
                         [](const LoopStep& s) { return s.kind == LoopStep::Kind::primitive; });
  };
  int64_t kept = 1;
  for (size_t d = 0; d < space.size(); ++d)
    if (!reduced[d]) kept *= space[d];
  return iterations() * (arithmetic(body) + static_cast<int64_t>(reductions.size())) +
         kept * arithmetic(epilogue);
}

int64_t LoopProgram::bytes() const {
  int64_t total = 0;
  for (const LoopOperand& operand : operands) {
    auto bytes = static_cast<int64_t>(size_of(operand.dtype));
    for (size_t d = 0; d < space.size(); ++d)
      if (operand.strides[d] != 0) bytes *= space[d];
    total += bytes;
  }
  return total;
}

std::pair<std::vector<bool>, std::vector<bool>> used_operands(const LoopProgram& p) {
  std::vector<bool> in_body(p.operands.size()), in_epilogue(p.operands.size());
  const auto mark = [](std::vector<bool>& used, const std::vector<LoopStep>& steps,
                       const std::vector<LoopStore>& stores) {
    for (const LoopStep& s : steps)
      if (s.kind == LoopStep::Kind::load) used[static_cast<size_t>(s.operand)] = true;
    for (const LoopStore& s : stores) used[static_cast<size_t>(s.operand)] = true;
  };
  mark(in_body, p.body, p.stores);
  mark(in_epilogue, p.epilogue, p.epilogue_stores);
  return {std::move(in_body), std::move(in_epilogue)};
}

std::vector<Ints*> walked_strides(LoopProgram& p) {
  const auto [in_body, in_epilogue] = used_operands(p);
  std::vector<Ints*> all;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    Ints& strides = p.operands[i].strides;
    for (size_t d = 0; d < p.space.size(); ++d)
      if (!in_body[i] && (!in_epilogue[i] || p.reduced[d])) strides[d] = 0;
    all.push_back(&strides);
  }
  for (LoopStep& s : p.body)
    if (s.kind == LoopStep::Kind::index) all.push_back(&s.index_strides);
  for (LoopStep& s : p.epilogue) {
    if (s.kind != LoopStep::Kind::index) continue;
    for (size_t d = 0; d < p.space.size(); ++d)
      if (p.reduced[d]) s.index_strides[d] = 0;
    all.push_back(&s.index_strides);
  }
  return all;
}

namespace {

/// The stride vectors that decide which dimensions can merge, each with a weight in bytes for ordering.
struct StrideSet {
  std::vector<Ints*> all;
  std::vector<std::pair<const Ints*, int64_t>> memory;  // of the operands that are used
};

StrideSet collect_strides(LoopProgram& p) {
  StrideSet set;
  set.all = walked_strides(p);
  const auto [in_body, in_epilogue] = used_operands(p);
  for (size_t i = 0; i < p.operands.size(); ++i)
    if (in_body[i] || in_epilogue[i])
      set.memory.emplace_back(&p.operands[i].strides, size_of(p.operands[i].dtype));
  return set;
}

void select_dims(LoopProgram& p, const StrideSet& set, const std::vector<size_t>& order) {
  const auto pick = [&](auto values) {
    auto result = values;
    result.clear();
    for (size_t d : order) result.push_back(values[d]);
    return result;
  };
  p.space = pick(p.space);
  p.reduced = pick(p.reduced);
  for (Ints* strides : set.all) *strides = pick(*strides);
}

/// The outermost dimension is the one with the longest strides; the innermost is the one along which most
/// bytes are contiguous.
std::vector<size_t> memory_order(const LoopProgram& p, const StrideSet& set) {
  const size_t rank = p.space.size();
  const auto touched =
      [&](const Ints& strides) {  // elements of an operand: fewer than iterations if it broadcasts
        double n = 1;
        for (size_t d = 0; d < rank; ++d)
          if (strides[d] != 0) n *= static_cast<double>(p.space[d]);
        return n;
      };
  std::vector<double> weight(rank), contiguous(rank);
  for (size_t d = 0; d < rank; ++d) {
    for (const auto& [strides, bytes] : set.memory) {
      weight[d] += static_cast<double>(std::abs((*strides)[d]) * bytes);
      if (std::abs((*strides)[d]) == 1) contiguous[d] += touched(*strides) * static_cast<double>(bytes);
    }
    for (const LoopStore& s : p.stores) {  // a contiguous store is worth more than a contiguous load
      const LoopOperand& o = p.operands[static_cast<size_t>(s.operand)];
      if (std::abs(o.strides[d]) == 1)
        contiguous[d] += 0.5 * touched(o.strides) * static_cast<double>(size_of(o.dtype));
    }
  }
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight[a] > weight[b]; });
  auto innermost = order.begin();
  for (auto it = order.begin(); it != order.end(); ++it)
    if (contiguous[*it] >= contiguous[*innermost]) innermost = it;
  if (rank > 0) std::rotate(innermost, innermost + 1, order.end());

  const bool ordered = std::any_of(p.reductions.begin(), p.reductions.end(),
                                   [](const LoopReduction& r) { return r.prim == Prim::argmax; });
  if (ordered) {  // reduced dimensions keep their order among themselves
    std::vector<size_t> reduced_dims;
    for (size_t d = 0; d < rank; ++d)
      if (p.reduced[d]) reduced_dims.push_back(d);
    auto next = reduced_dims.begin();
    for (size_t& d : order)
      if (p.reduced[d]) d = *next++;
  }
  return order;
}

void merge_neighbours(LoopProgram& p, const StrideSet& set) {
  std::vector<size_t> kept;
  for (size_t d = 0; d < p.space.size(); ++d) {
    const bool merges = !kept.empty() && p.reduced[kept.back()] == p.reduced[d] &&
                        std::all_of(set.all.begin(), set.all.end(), [&](const Ints* strides) {
                          return (*strides)[kept.back()] == (*strides)[d] * p.space[d];
                        });
    if (!merges) {
      kept.push_back(d);
      continue;
    }
    p.space[kept.back()] *= p.space[d];
    for (Ints* strides : set.all) (*strides)[kept.back()] = (*strides)[d];
  }
  select_dims(p, set, kept);
}

}  // namespace

LoopProgram simplify_loop(LoopProgram program) {
  program.reduced.resize(program.space.size());
  const StrideSet set = collect_strides(program);
  std::vector<size_t> longer;
  for (size_t d = 0; d < program.space.size(); ++d)
    if (program.space[d] != 1) longer.push_back(d);
  select_dims(program, set, longer);
  if (program.iterations() == 0) return program;
  select_dims(program, set, memory_order(program, set));
  merge_neighbours(program, set);
  return program;
}

static std::string describe(const LoopOperand& o) {
  return fmt::format("{} buffer{}[{} + ({})]", to_string(o.dtype), o.buffer, o.offset,
                     fmt::join(o.strides, ", "));
}

static std::string describe(const LoopStep& s, const LoopProgram& p) {
  switch (s.kind) {
    case LoopStep::Kind::load:
      return fmt::format("load {}", describe(p.operands[static_cast<size_t>(s.operand)]));
    case LoopStep::Kind::constant:
      return is_float(s.type) ? fmt::format("constant {}", s.value) : fmt::format("constant {}", s.int_value);
    case LoopStep::Kind::index:
      return fmt::format("index {} + ({})", s.index_offset, fmt::join(s.index_strides, ", "));
    case LoopStep::Kind::primitive:
      break;
  }
  std::string text(to_string(s.prim));
  for (int r : {s.a, s.b, s.c})
    if (r >= 0) text += fmt::format(" r{}", r);
  return text;
}

std::string to_string(const LoopProgram& p) {
  std::vector<std::string> extents;
  for (size_t d = 0; d < p.space.size(); ++d)
    extents.push_back(fmt::format("{}{}", p.space[d], p.reduced[d] ? " reduced" : ""));
  std::string text = fmt::format("for [{}], {} buffers\n", fmt::join(extents, ", "), p.buffers);
  size_t r = 0;
  const auto list = [&](const std::vector<LoopStep>& steps, const std::vector<LoopStore>& stores) {
    for (const LoopStep& s : steps)
      text += fmt::format("  r{} = {} {}\n", r++, to_string(s.type), describe(s, p));
    for (const LoopStore& s : stores)
      text +=
          fmt::format("  store r{} to {}\n", s.source, describe(p.operands[static_cast<size_t>(s.operand)]));
  };
  list(p.body, p.stores);
  for (const LoopReduction& red : p.reductions)
    text += fmt::format("  r{} = {} {} r{}\n", r++, to_string(red.type), to_string(red.prim), red.source);
  list(p.epilogue, p.epilogue_stores);
  return text;
}

void add_epilogue(LoopProgram& loop, const LoopProgram& from, const std::function<int(int)>& operand,
                  const std::function<Ints(const Ints&)>& strides) {
  // Its registers come after those of the loop's steps.
  const auto moved = static_cast<int>(loop.body.size()) - static_cast<int>(from.body.size());
  for (LoopStep step : from.epilogue) {
    for (int* r : {&step.a, &step.b, &step.c})
      if (*r >= 0) *r += moved;
    if (step.kind == LoopStep::Kind::load) step.operand = operand(step.operand);
    if (step.kind == LoopStep::Kind::index) step.index_strides = strides(step.index_strides);
    loop.epilogue.push_back(std::move(step));
  }
  for (const LoopStore& store : from.epilogue_stores)
    loop.epilogue_stores.push_back({store.source + moved, operand(store.operand)});
}

}  // namespace athanor
