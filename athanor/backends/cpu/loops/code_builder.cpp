// The second half of lowering: from values to instructions on registers.
#include <algorithm>
#include <limits>
#include <map>

#include "athanor/backends/cpu/loops/code.h"

namespace athanor::loops {

using Kind = Instruction::Kind;

static constexpr int at_the_end = std::numeric_limits<int>::max();
/// Results of this size and more do not stay in any cache. Storing them past the caches saves reading the
/// line first: a third of the traffic of a loop that reads one array and writes another.
static constexpr int64_t streamed_bytes = 32 << 20;

Code CodeBuilder::finish(int extra) {
  count_uses();
  fuse();
  pair_steps();
  choose_direct_stores();
  Code code;
  allocate(code);
  put_instructions(code);
  drop_unused_walkers(code, extra);
  return code;
}

void CodeBuilder::drop_unused_walkers(Code& code, int extra) {
  positions_.assign(walkers_.size(), -1);
  const auto renumber = [&](int& w) {
    if (w < 0) return;
    int& position = positions_[static_cast<size_t>(w)];
    if (position < 0) {
      position = static_cast<int>(code.walkers.size());
      code.walkers.push_back(walkers_[static_cast<size_t>(w)]);
    }
    w = position;
  };
  renumber(extra);
  for (auto* list : {&code.once, &code.each})
    for (Instruction& i : *list) {
      renumber(i.walker);
      renumber(i.target);
    }
}

void CodeBuilder::count_uses() {
  for (const Store& s : stores_) ++node(s.value).uses;
  for (const Wish& k : kept_) ++node(k.value).uses;
  for (size_t i = nodes_.size(); i-- > 0;)  // sources come before their users
    if (nodes_[i].uses > 0)
      for (int s : nodes_[i].sources) ++node(s).uses;
}

void CodeBuilder::fuse() {
  for (Wish& k : kept_) {
    Node& n = node(k.value);
    const bool only = k.product && n.kind == Kind::step && n.op == Opcode::mul && n.uses == 1;
    if (!only || node(n.sources[0]).uniform || node(n.sources[1]).uniform) continue;
    n.uses = 0;
    k.value = n.sources[0];
    k.factor = n.sources[1];
  }
  // Whether only `user` needs a value, and both are uniform or neither is: a uniform value is computed once
  // for a whole tile.
  const auto absorbs = [&](const Node& user, int value, Opcode op) {
    const Node& n = node(value);
    return n.kind == Kind::step && n.op == op && n.uses == 1 && n.uniform == user.uniform;
  };
  for (Node& n : nodes_) {
    if (n.uses == 0 || n.kind != Kind::step) continue;
    if (n.type == DType::f32 || n.type == DType::f64) {
      const auto multiply_add = [&](Opcode op, int product, int other) {
        Node& p = node(product);
        p.uses = 0;
        n.op = op;
        n.sources = {p.sources[0], p.sources[1], other};
      };
      if (n.op == Opcode::add && absorbs(n, n.sources[1], Opcode::mul))
        multiply_add(Opcode::fma, n.sources[1], n.sources[0]);
      else if (n.op == Opcode::add && absorbs(n, n.sources[0], Opcode::mul))
        multiply_add(Opcode::fma, n.sources[0], n.sources[1]);
      else if (n.op == Opcode::sub && absorbs(n, n.sources[0], Opcode::mul))
        multiply_add(Opcode::fms, n.sources[0], n.sources[1]);
      else if (n.op == Opcode::sub && absorbs(n, n.sources[1], Opcode::mul))
        multiply_add(Opcode::fnma, n.sources[1], n.sources[0]);
    }
    if (n.op == Opcode::where && absorbs(n, n.sources[0], Opcode::less)) {
      Node& less = node(n.sources[0]);
      if (node(less.sources[0]).type != n.type || find_step(Opcode::where_less, n.type, n.type) == nullptr)
        continue;
      less.uses = 0;
      n.op = Opcode::where_less;
      n.sources = {less.sources[0], less.sources[1], n.sources[1], n.sources[2]};
    }
  }
}

/// Merges steps with the only step that uses their result, so that it is neither stored nor loaded.
void CodeBuilder::pair_steps() {
  const auto is_free = [](const Node& n) {
    return n.uses > 0 && n.kind == Kind::step && !n.uniform && !n.pair;
  };
  for (Node& n : nodes_) {
    for (size_t k = 0; k < n.sources.size() && is_free(n); ++k) {
      Node& first = node(n.sources[k]);
      if (!is_free(first) || first.uses != 1 || first.type != n.type) continue;
      const bool commutes = n.op == Opcode::add || n.op == Opcode::mul || n.op == Opcode::fma ||
                            n.op == Opcode::fms || n.op == Opcode::fnma;
      const size_t place = k == 1 && commutes ? 0 : k;
      const StepPair pair{first.op, n.op, static_cast<int>(place)};
      if (find_pair(pair, n.type) == nullptr) continue;
      n.sources.erase(n.sources.begin() + static_cast<ptrdiff_t>(k));
      n.sources.insert(n.sources.begin(), first.sources.begin(), first.sources.end());
      n.pair = pair;
      first.uses = 0;
    }
  }
}

void CodeBuilder::choose_direct_stores() {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].uses > 0)
      for (int s : nodes_[i].sources) node(s).last_use = static_cast<int>(i);
  for (const Store& s : stores_) node(s.value).last_use = at_the_end;
  for (const Wish& k : kept_) {
    node(k.value).last_use = at_the_end;
    if (k.factor >= 0) node(k.factor).last_use = at_the_end;
  }

  // Operands that a tile reads in place and also overwrites (an update in place; different buffers may be the
  // same memory). They must not change before their last use.
  const auto overlaps = [&](const Node& n, const Store& s) {
    return n.uses > 0 && n.walker >= 0 && n.kind != Kind::index &&
           walkers_[static_cast<size_t>(n.walker)].same_place(walkers_[static_cast<size_t>(s.walker)]);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& n = nodes_[i];
    const auto overwritten = [&](const Store& s) { return s.value != static_cast<int>(i) && overlaps(n, s); };
    if (n.kind == Kind::point && n.last_use == at_the_end &&
        std::any_of(stores_.begin(), stores_.end(), overwritten))
      n.kind = Kind::gather;
  }
  for (Store& s : stores_) {
    Node& n = node(s.value);
    const bool computed = n.kind == Kind::step || n.kind == Kind::gather || n.kind == Kind::index;
    const bool contiguous = walkers_[static_cast<size_t>(s.walker)].form == Walker::Form::contiguous;
    if (!computed || !contiguous || n.uniform || n.direct >= 0) continue;
    bool safe = true;
    for (size_t i = 0; i < nodes_.size() && safe; ++i) {
      const int until = nodes_[i].kind == Kind::point ? nodes_[i].last_use : static_cast<int>(i);
      safe = !overlaps(nodes_[i], s) || until <= s.value;
    }
    if (!safe) continue;
    n.direct = s.walker;
    s.direct = true;
  }
}

void CodeBuilder::allocate(Code& code) {
  constexpr int64_t line = 64;
  // Registers are not a multiple of 4096 apart: loads and stores with equal low address bits slow each other
  // down.
  constexpr int64_t skew = 3 * line;
  std::map<int64_t, std::vector<int64_t>> free;  // keyed by bytes of an element
  const auto release = [&](const Node& n) {
    if (!n.persistent && n.direct < 0 && n.kind != Kind::point)
      free[static_cast<int64_t>(size_of(n.type))].push_back(code.registers[static_cast<size_t>(n.reg)]);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& n = nodes_[i];
    if (n.uses == 0) continue;
    const auto item = static_cast<int64_t>(size_of(n.type));
    const bool loaded = n.kind == Kind::splat || n.kind == Kind::gather || n.kind == Kind::index;
    const bool repeats = loaded && walkers_[static_cast<size_t>(n.walker)].repeats && n.direct < 0;
    n.persistent = n.uniform || repeats || n.last_use == at_the_end;
    for (size_t k = 0; k < n.sources.size(); ++k) {
      const Node& s = node(n.sources[k]);
      const bool again =
          std::find(n.sources.begin(), n.sources.begin() + k, n.sources[k]) != n.sources.begin() + k;
      if (s.last_use == static_cast<int>(i) && !again) release(s);
    }
    n.reg = static_cast<int>(code.registers.size());
    const bool streams = n.direct >= 0 && walkers_[static_cast<size_t>(n.direct)].bytes >= streamed_bytes;
    if (n.kind == Kind::point || (n.direct >= 0 && !streams)) {
      code.registers.push_back(-1);
      code.tile_bytes += item;
    } else if (n.uniform) {
      code.registers.push_back(code.scratch_bytes);
      code.scratch_bytes += static_cast<int64_t>(uniform_lanes) * item;
    } else if (auto& slots = free[item]; !n.persistent && !slots.empty()) {
      code.registers.push_back(slots.back());
      slots.pop_back();
    } else {
      code.registers.push_back(code.scratch_bytes);
      code.scratch_bytes += (tiling_.tile_size() * item + line - 1) / line * line + skew;
      code.tile_bytes += item;
    }
  }
}

/// Rough nanoseconds per element, to judge whether threads are worthwhile.
static double cost_of(const Instruction& i, const std::vector<Walker>& walkers, Opcode op) {
  if (i.uniform) return 0;
  const double item = static_cast<double>(i.item);
  switch (i.kind) {
    case Kind::gather:
      return walkers[static_cast<size_t>(i.walker)].repeats ? 0 : 0.4;
    case Kind::index:
      return 0.2;
    case Kind::point:
      return item * 0.01;
    case Kind::store:
      return walkers[static_cast<size_t>(i.walker)].form == Walker::Form::strided ? 0.4 : item * 0.01;
    case Kind::constant:
    case Kind::splat:
      return 0;
    case Kind::step:
      break;
  }
  switch (op) {
    case Opcode::exp:
    case Opcode::log:
    case Opcode::tanh:
    case Opcode::erf:
      return item == 8 ? 5 : 0.3;
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::pow:
    case Opcode::random_uniform:
      return item == 8 ? 10 : 0.6;
    case Opcode::mod:
      return 5;
    default:
      return item * 0.012;
  }
}

void CodeBuilder::put_instructions(Code& code) {
  const auto put = [&](const Instruction& i, Opcode op, bool invariant) {
    (invariant ? code.once : code.each).push_back(i);
    code.cost_ns += cost_of(i, walkers_, op);
  };
  for (const Node& n : nodes_) {
    if (n.uses == 0 || n.external) continue;
    Instruction i;
    i.kind = n.kind;
    i.uniform = n.uniform;
    i.dst = n.reg;
    i.walker = n.walker;
    i.item = static_cast<int64_t>(size_of(n.type));
    i.bits = n.bits;
    i.target = n.direct;
    i.streams = n.direct >= 0 && code.registers[static_cast<size_t>(n.reg)] >= 0;
    i.cached = n.persistent && n.walker >= 0 && n.kind != Kind::point && n.direct < 0;
    for (int s : n.sources) {
      if (node(s).uniform && !n.uniform) i.uniform_sources |= 1U << i.sources;
      i.src[static_cast<size_t>(i.sources++)] = register_of(s);
    }
    if (n.kind == Kind::step)
      i.fn = n.pair ? find_pair(*n.pair, n.type) : find_step(n.op, node(n.sources.back()).type, n.type);
    put(i, n.op, n.invariant);
  }
  for (const Store& s : stores_) {
    if (s.direct) continue;
    Instruction i;
    i.kind = Kind::store;
    i.walker = s.walker;
    i.item = static_cast<int64_t>(size_of(type(s.value)));
    i.src[0] = register_of(s.value);
    i.sources = 1;
    put(i, Opcode::copy, false);
  }
}

}  // namespace athanor::loops
