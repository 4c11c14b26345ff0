#include "athanor/compile/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "athanor/compile/emit.h"

namespace athanor {
namespace {

// The most operands of a loop. The tiles of more would not fit the first-level cache.
constexpr size_t max_operands = 24;
// Recomputing an elementwise value pays if it reads no more full-size operands than this ...
constexpr size_t max_recompute_reads = 2;
// ... and takes no more steps than this.
constexpr size_t max_recompute_steps = 12, steps_of_function = 4;

/// Functions that may be cheap: see Backend::has_cheap_functions().
bool is_function(Prim prim) {
  return prim == Prim::exp || prim == Prim::log || prim == Prim::tanh || prim == Prim::erf;
}

Ints without_ones(const Shape& shape) {
  Ints dims;
  for (int64_t d : shape)
    if (d != 1) dims.push_back(d);
  return dims;
}

Shape reduced_shape(const Shape& space, const Ints& axes) {
  Ints dims;
  for (int i = 0; i < space.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(space[i]);
  return {dims};
}

Ints axes_of(const GraphNode& node) {
  return node.op->prim == Prim::argmax ? Ints{node.attrs.integer("axis")} : node.attrs.ints("axes");
}

class Fuser {
 public:
  Fuser(const Graph& graph, const std::vector<View>& views, bool enabled)
      : graph_(graph), views_(views), enabled_(enabled) {
    const size_t n = graph.nodes.size();
    result_.group_of.assign(n, -1);
    result_.stored.assign(n, false);
    result_.recomputed.assign(n, false);
    cones_.resize(n);
    level_.assign(n, 0);
    readers_count_.assign(n, 0);
    for (const GraphNode& reader : graph.nodes)
      for (const int input : reader.inputs) ++readers_count_[static_cast<size_t>(input)];
  }

  Fusion run() {
    find_stored();
    for (int id = 0; id < static_cast<int>(graph_.nodes.size()); ++id) place(id);
    mark_loads();
    return std::move(result_);
  }

 private:
  // What computing an elementwise node takes, recomputed operands included: the nodes whose values are read
  // from memory, those of full size among them, and the steps.
  struct Cone {
    std::set<int> reads;
    size_t full_reads = 0, steps = 0;
    bool costly = false;
  };

  const GraphNode& node(int id) const { return graph_[id]; }
  const View& view(int id) const { return views_[static_cast<size_t>(id)]; }
  int group_of(int id) const { return result_.group_of[static_cast<size_t>(id)]; }
  LoopGroup& group(int g) { return result_.groups[static_cast<size_t>(g)]; }

  // Whether a node is a cast that costs a loop nothing, because both types are the same in its registers.
  bool is_storage_cast(int id) const {
    return node(id).op->prim == Prim::cast &&
           computed_in(node(id).type.dtype) == computed_in(node(node(id).inputs[0]).type.dtype);
  }

  // Whether `id` is an elementwise op, not a view of one.
  bool is_body(int id) const { return is_elementwise(node(id).op->prim); }

  // Marks values that must be in memory: outputs, values that kernels of ops read, and values that are not
  // read element by element.
  void find_stored() {
    for (int output : graph_.outputs) store(output);
    for (const auto& n : graph_.nodes) {
      if (is_movement(n.op->prim) &&
          view(static_cast<int>(&n - graph_.nodes.data())).base != &n - graph_.nodes.data())
        continue;  // a view: its readers decide whether the value is stored
      const bool loop = is_elementwise(n.op->prim) || is_reduction(n.op->prim);
      for (int input : n.inputs)
        if (!loop || !is_body(input)) store(input);
    }
  }
  void store(int id) {
    if (view(id).kind == View::Kind::memory) result_.stored[static_cast<size_t>(view(id).base)] = true;
  }

  Cone cone_of(int id) const {
    Cone cone;
    const Prim prim = node(id).op->prim;
    const Device device = node(id).type.device;
    const bool cheap = is_function(prim) && backend_of(device).has_cheap_functions(device.index);
    cone.steps = is_storage_cast(id) ? 0 : cheap ? steps_of_function : 1;
    cone.costly = is_costly(prim) && !cheap;
    for (int input : node(id).inputs) {
      if (is_body(input) && result_.recomputed[static_cast<size_t>(input)]) {
        const Cone& below = cones_[static_cast<size_t>(input)];
        cone.reads.insert(below.reads.begin(), below.reads.end());
        cone.steps += below.steps;
        cone.costly |= below.costly;
      } else if (view(input).kind == View::Kind::memory) {
        cone.reads.insert(view(input).base);
      }
    }
    for (int base : cone.reads)
      if (node(base).type.shape.size() == node(id).type.shape.size()) ++cone.full_reads;
    return cone;
  }

  // Whether keeping the value takes less memory than keeping the costly one that only it reads: dropout's
  // mask of bools is a quarter of its random numbers.
  bool is_smaller_than_costly(int id) const {
    return std::ranges::any_of(node(id).inputs, [&](int input) {
      const auto i = static_cast<size_t>(input);
      return is_body(input) && cones_[i].costly && !result_.stored[i] && readers_count_[i] == 1 &&
             node(id).type.bytes() < node(input).type.bytes();
    });
  }

  void place(int id) {
    const Prim prim = node(id).op->prim;
    if (is_elementwise(prim)) {
      Cone& cone = cones_[static_cast<size_t>(id)] = cone_of(id);
      result_.recomputed[static_cast<size_t>(id)] =
          enabled_ && !result_.stored[static_cast<size_t>(id)] && node(id).after.empty() && !cone.costly &&
          !is_smaller_than_costly(id) && cone.full_reads <= max_recompute_reads &&
          cone.steps <= max_recompute_steps;
      join(id, node(id).type.shape, {});
    } else if (is_reduction(prim)) {
      join(id, node(node(id).inputs[0]).type.shape, axes_of(node(id)));
    } else if (view(id).base == id && view(id).kind == View::Kind::memory && prim != Prim::input) {
      for (int input : node(id).inputs)
        level_[static_cast<size_t>(id)] = std::max(level_[static_cast<size_t>(id)], level_of(input) + 1);
      for (int earlier : node(id).after)
        level_[static_cast<size_t>(id)] = std::max(level_[static_cast<size_t>(id)], level_of(earlier) + 1);
    } else if (prim != Prim::input) {
      level_[static_cast<size_t>(id)] = node(id).inputs.empty() ? 0 : level_of(node(id).inputs[0]);
    }
  }

  int level_of(int id) const {
    if (view(id).kind != View::Kind::memory) return 0;
    const int base = view(id).base;
    return group_of(base) >= 0 ? result_.groups[static_cast<size_t>(group_of(base))].level
                               : level_[static_cast<size_t>(base)];
  }

  // Whether epilogue code of `g` can read or compute `id`: it must have the shape of the reductions' results.
  bool fits_epilogue(int id, const LoopGroup& g) const {
    return !g.reductions.empty() &&
           without_ones(node(id).type.shape) == without_ones(reduced_shape(g.space, g.axes));
  }
  // Whether `input` is, element for element, a reduction or epilogue value of `g`.
  bool is_reduced_value(int input, int g) const {
    const View& v = view(input);
    if (v.kind != View::Kind::memory || group_of(v.base) != g) return false;
    const LoopGroup& owner = result_.groups[static_cast<size_t>(g)];
    const bool body = std::find(owner.body.begin(), owner.body.end(), v.base) != owner.body.end();
    return !body && is_whole(graph_, views_, input);
  }
  bool in_body(int id, int g) const {
    const LoopGroup& owner = result_.groups[static_cast<size_t>(g)];
    return group_of(id) == g && is_body(id) &&
           std::find(owner.epilogue.begin(), owner.epilogue.end(), id) == owner.epilogue.end();
  }

  // The lowest level that is above everything that `id` reads from outside group `g`.
  int level_outside(int id, int g) const {
    int level = 1;
    for (int earlier : node(id).after) level = std::max(level, level_of(earlier) + 1);
    for (int input : node(id).inputs) {
      if (view(input).kind != View::Kind::memory) continue;
      if (g >= 0 && (is_body(input) ? in_body(input, g) : false)) continue;
      if (g >= 0 && is_reduced_value(input, g)) continue;
      if (is_body(input) && result_.recomputed[static_cast<size_t>(input)]) {
        for (int base : cones_[static_cast<size_t>(input)].reads) level = std::max(level, level_of(base) + 1);
      } else {
        level = std::max(level, level_of(input) + 1);
      }
    }
    return level;
  }

  size_t operands(const LoopGroup& g) const {
    std::set<int> reads;
    for (const auto* list : {&g.body, &g.reductions, &g.epilogue})
      for (int id : *list)
        for (int input : node(id).inputs)
          if (view(input).kind == View::Kind::memory) reads.insert(view(input).base);
    return reads.size();
  }

  // The most buffers that a loop with `id` would have in this group: what it reads, and what others may read.
  size_t buffers(const LoopGroup& g, int id) const {
    std::map<int, int> uses;  // of the group's nodes, in the group
    for (const auto* list : {&g.body, &g.reductions, &g.epilogue})
      for (int member : *list) uses[member] = 0;
    uses[id] = 0;
    std::set<int> reads;
    for (const auto& [member, _] : uses)
      for (int input : node(member).inputs) {
        if (const auto inside = uses.find(input); inside != uses.end())
          ++inside->second;
        else if (is_body(input) && result_.recomputed[static_cast<size_t>(input)])
          reads.insert(cones_[static_cast<size_t>(input)].reads.begin(),
                       cones_[static_cast<size_t>(input)].reads.end());
        else if (view(input).kind == View::Kind::memory)
          reads.insert(view(input).base);
      }
    size_t stored = 0;
    for (const auto& [id_of, inside] : uses) {
      const auto member = static_cast<size_t>(id_of);
      if (!result_.stored[member] && inside >= readers_count_[member]) continue;
      // Others recompute a cheap value from what it reads.
      stored += std::max<size_t>(1, result_.recomputed[member] ? cones_[member].reads.size() : 0);
    }
    return reads.size() + stored;
  }

  // Whether the group may have another node. A loop of one element, such as the largest of the gradients'
  // largest elements, may have as many buffers as a launch.
  bool has_room(const LoopGroup& g, int id) const {
    const Device device = node(id).type.device;
    const int64_t most = g.space.size() == 1 ? backend_of(device).most_joined_buffers(device.index) : 0;
    return operands(g) < max_operands || static_cast<int64_t>(buffers(g, id)) <= most;
  }

  enum class Role : uint8_t { body, reduction, epilogue };

  // Whether `id` can have a role in group `g`, and which.
  bool role_in(int id, const Shape& space, const Ints& axes, int g, Role& role) const {
    const LoopGroup& candidate = result_.groups[static_cast<size_t>(g)];
    const bool reduces = is_reduction(node(id).op->prim);
    bool reads_body = false, reads_reduced = false;
    for (int input : node(id).inputs) {
      reads_body |= is_body(input) && in_body(input, g);
      reads_reduced |= group_of(view(input).base < 0 ? 0 : view(input).base) == g &&
                       view(input).kind == View::Kind::memory && !in_body(view(input).base, g);
    }
    if (reads_reduced) {
      if (reduces || reads_body || !fits_epilogue(id, candidate)) return false;
      for (int input : node(id).inputs)
        if (view(input).kind == View::Kind::memory && group_of(view(input).base) == g &&
            !is_reduced_value(input, g))
          return false;
      role = Role::epilogue;
      return candidate.level >= level_outside(id, g);
    }
    if (!(candidate.space == space)) return false;
    if (reduces && !candidate.reductions.empty() && candidate.axes != axes) return false;
    // A view that reorders a value of the body would read elements before they are written.
    for (int input : node(id).inputs)
      if (!is_body(input) && view(input).kind == View::Kind::memory && group_of(view(input).base) == g)
        return false;
    role = reduces ? Role::reduction : Role::body;
    return candidate.level >= level_outside(id, g);
  }

  void join(int id, const Shape& space, const Ints& axes) {
    int best = -1;
    Role best_role = is_reduction(node(id).op->prim) ? Role::reduction : Role::body;
    if (enabled_) {
      // First choice: the group of a producer that runs last. Otherwise: a loop over the same space that
      // reads the same memory. That memory must be large, because updates of different parameters share only
      // their few numbers.
      std::set<int> producers, neighbours;
      for (int input : node(id).inputs) {
        if (view(input).kind != View::Kind::memory) continue;
        const int base = view(input).base;
        if (group_of(base) >= 0) producers.insert(group_of(base));
        if (auto readers = readers_.find(base);
            readers != readers_.end() && node(base).type.shape.size() >= space.size())
          neighbours.insert(readers->second.begin(), readers->second.end());
      }
      for (const auto* candidates : {&producers, &neighbours}) {
        for (int g : *candidates) {
          Role role{};
          if (role_in(id, space, axes, g, role) && has_room(group(g), id) &&
              (best < 0 || group(g).level > group(best).level))
            best = g, best_role = role;
        }
        if (best >= 0) break;
      }
    }
    if (best < 0) {
      LoopGroup fresh;
      fresh.space = space;
      fresh.level = level_outside(id, -1);
      best = static_cast<int>(result_.groups.size());
      result_.groups.push_back(std::move(fresh));
    }
    result_.group_of[static_cast<size_t>(id)] = best;
    LoopGroup& g = group(best);
    if (best_role == Role::reduction) g.axes = axes;
    (best_role == Role::body        ? g.body
     : best_role == Role::reduction ? g.reductions
                                    : g.epilogue)
        .push_back(id);
    for (int input : node(id).inputs)
      if (view(input).kind == View::Kind::memory) readers_[view(input).base].insert(best);
  }

  // A value that a group reads but neither computes nor recomputes must be stored where it is computed.
  void mark_loads() {
    for (int g = 0; g < static_cast<int>(result_.groups.size()); ++g)
      for (const auto* list : {&group(g).body, &group(g).reductions, &group(g).epilogue})
        for (int id : *list)
          for (int input : node(id).inputs) mark_load(input, g);
  }
  void mark_load(int input, int g) {
    if (view(input).kind != View::Kind::memory) return;
    if (is_body(input) && in_body(input, g)) return;
    if (is_reduced_value(input, g)) return;
    if (is_body(input) && group_of(input) == g) return;  // epilogue reading epilogue
    if (is_body(input) && result_.recomputed[static_cast<size_t>(input)]) {
      for (int below : node(input).inputs) mark_load(below, g);
      return;
    }
    result_.stored[static_cast<size_t>(view(input).base)] = true;
  }

  const Graph& graph_;
  const std::vector<View>& views_;
  bool enabled_;
  Fusion result_;
  std::vector<Cone> cones_;
  std::vector<int> level_;
  std::vector<int> readers_count_;  // for each node: how many inputs of others it is
  std::map<int, std::set<int>> readers_;
};

}  // namespace

bool is_costly(Prim prim) {
  switch (prim) {
    case Prim::exp:
    case Prim::log:
    case Prim::sin:
    case Prim::cos:
    case Prim::tanh:
    case Prim::erf:
    case Prim::pow:
    case Prim::mod:
    case Prim::random_uniform:
      return true;
    default:
      return false;
  }
}

bool is_continuous(Prim prim) {
  switch (prim) {
    case Prim::floor:
    case Prim::mod:
    case Prim::less:
    case Prim::equal:
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::random_uniform:
    case Prim::argmax:
      return false;
    default:
      return true;
  }
}

Fusion fuse(const Graph& graph, const std::vector<View>& views, bool enabled) {
  return Fuser(graph, views, enabled).run();
}

}  // namespace athanor
