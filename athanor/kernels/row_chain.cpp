#include "athanor/kernels/row_chain.h"

#include <algorithm>
#include <map>

#include "athanor/kernels/common_space.h"
#include "athanor/kernels/walked_strides.h"

namespace athanor {
namespace {

/// Whether the epilogue has only results of reductions, and none of them is an index.
bool has_plain_epilogue(const LoopProgram& p) {
  const auto in_body = [&](int r) { return r >= 0 && r < static_cast<int>(p.body.size()); };
  return std::ranges::none_of(p.reductions, [](const auto& r) { return r.prim == Prim::argmax; }) &&
         std::ranges::none_of(
             p.epilogue, [&](const LoopStep& e) { return in_body(e.a) || in_body(e.b) || in_body(e.c); }) &&
         std::ranges::none_of(p.epilogue_stores, in_body, &LoopStore::source);
}

/// The number of dimensions outside the rows: those in front of what some loop reduces. 0 if there is none.
size_t outer_dimensions(const std::vector<LoopProgram>& loops) {
  for (const LoopProgram& p : loops) {
    const auto first = std::ranges::find(p.reduced, true);
    if (first != p.reduced.end() && std::all_of(first, p.reduced.end(), [](bool r) { return r; }))
      return static_cast<size_t>(first - p.reduced.begin());
  }
  return 0;
}

std::optional<RowRole> role_of(const LoopProgram& p, size_t outer) {
  if (p.reductions.empty()) return RowRole::map;
  bool rows = true, columns = true;
  for (size_t d = 0; d < p.reduced.size(); ++d) {
    rows &= p.reduced[d] == (d >= outer);
    columns &= p.reduced[d] == (d < outer);
  }
  if (rows) return RowRole::rows;
  if (columns) return RowRole::columns;
  return std::nullopt;
}

/// Merges dimension d + 1 into d, if everything walks both as one.
bool merge(std::vector<LoopProgram>& loops, size_t d) {
  for (LoopProgram& p : loops)
    for (const Ints* strides : walked_strides(p))
      if ((*strides)[d] != (*strides)[d + 1] * p.space[d + 1]) return false;
  for (LoopProgram& p : loops) {
    for (Ints* strides : walked_strides(p)) strides->erase(strides->begin() + static_cast<std::ptrdiff_t>(d));
    p.space[d + 1] *= p.space[d];
    p.space.erase(p.space.begin() + static_cast<std::ptrdiff_t>(d));
    p.reduced.erase(p.reduced.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return true;
}

/// Whether each element that a loop reads of an earlier loop's results is one that the same row has written
/// at the same place of the walk.
bool reads_own_rows(const RowChain& chain) {
  struct Written {
    const LoopOperand* place;
    RowRole role;
    bool whole;  // an element for each of the row; otherwise one for the row
  };
  std::map<int, Written> written;  // by buffer
  for (size_t l = 0; l < chain.loops.size(); ++l) {
    const LoopProgram& p = chain.loops[l];
    const auto operand = [&](int o) -> const LoopOperand& { return p.operands[static_cast<size_t>(o)]; };
    const auto fits = [&](const LoopStep& s, bool in_body) {
      if (s.kind != LoopStep::Kind::load) return true;
      const auto found = written.find(operand(s.operand).buffer);
      if (found == written.end()) return true;
      const Written& from = found->second;
      if (!in_body && (chain.roles[l] != RowRole::rows || from.whole)) return false;
      const LoopOperand &to = *from.place, &read = operand(s.operand);
      return from.role != RowRole::columns && to.dtype == read.dtype && to.offset == read.offset &&
             to.strides == read.strides;
    };
    if (!std::ranges::all_of(p.body, [&](const LoopStep& s) { return fits(s, true); }) ||
        !std::ranges::all_of(p.epilogue, [&](const LoopStep& s) { return fits(s, false); }))
      return false;
    for (const bool whole : {true, false})
      for (const LoopStore& s : whole ? p.stores : p.epilogue_stores) {
        const RowRole role = whole ? RowRole::map : chain.roles[l];
        if (!written.emplace(operand(s.operand).buffer, Written{&operand(s.operand), role, whole}).second)
          return false;
      }
  }
  return true;
}

}  // namespace

std::optional<RowChain> row_chain(std::span<const LoopProgram> loops) {
  RowChain chain;
  std::optional<Ints> space;
  for (const LoopProgram& p : loops) {
    if (p.iterations() == 0 || !has_plain_epilogue(p)) return std::nullopt;
    space = common_space(space ? *space : p.space, p.space);
    if (!space) return std::nullopt;
  }
  if (!space || space->size() < 2) return std::nullopt;
  for (const LoopProgram& p : loops) chain.loops.push_back(over(p, *space));
  size_t outer = outer_dimensions(chain.loops);
  if (outer == 0) return std::nullopt;
  for (const LoopProgram& p : chain.loops) {
    const std::optional<RowRole> role = role_of(p, outer);
    if (!role) return std::nullopt;
    chain.roles.push_back(*role);
  }
  while (chain.space().size() > outer + 1)
    if (!merge(chain.loops, outer)) return std::nullopt;
  for (size_t d = outer; d-- > 1;) merge(chain.loops, d - 1);
  if (!reads_own_rows(chain)) return std::nullopt;
  return chain;
}

}  // namespace athanor
