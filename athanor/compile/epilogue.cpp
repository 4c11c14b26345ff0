// Computes elementwise ops in the kernel of the contraction before them, so that only the finished result is
// written.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "athanor/compile/emit.h"
#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

// The most inputs of an epilogue, and the most steps. All steps are computed for each element of a tile that
// waits in registers.
constexpr size_t max_epilogue_inputs = 8, max_epilogue_steps = 64;
// An input that is smaller than the result by this factor stays in a cache while it is read for each element.
constexpr int64_t small_part = 16;
// As for loops (fuse.cpp): a value that takes no more steps and reads no more operands is recomputed, not
// read.
constexpr size_t max_again_steps = 12, max_again_reads = 2;

class EpilogueFuser {
 public:
  EpilogueFuser(const Graph& graph, const std::vector<bool>& donated, bool spares_memory)
      : graph_(graph),
        spares_memory_(spares_memory),
        views_(find_views(graph)),
        users_(graph.nodes.size()),
        latest_(graph.nodes.size(), -1),
        is_output_(graph.nodes.size()),
        is_donated_(graph.nodes.size()),
        taken_(graph.nodes.size()) {
    for (int id = 0; id < static_cast<int>(graph.nodes.size()); ++id) {
      if (node(id).op->is_contraction) latest_[static_cast<size_t>(id)] = id;
      for (const auto* list : {&node(id).inputs, &node(id).after})
        for (const int earlier : *list) {
          users_[static_cast<size_t>(earlier)].push_back(id);
          latest_[static_cast<size_t>(id)] = std::max(latest_[static_cast<size_t>(id)], latest(earlier));
        }
    }
    for (size_t i = 0; i < graph.inputs.size() && i < donated.size(); ++i)
      is_donated_[static_cast<size_t>(graph.inputs[i])] = donated[i];
    for (const int output : graph.outputs) is_output_[static_cast<size_t>(output)] = true;
  }

  Graph run() {
    for (int id = 0; id < static_cast<int>(graph_.nodes.size()); ++id)
      if (node(id).op->is_contraction && is_float(node(id).type.dtype) && !is_output(id)) find(id);
    return fused();
  }

 private:
  /// A contraction and the elementwise ops after it.
  struct Chain {
    int contraction = -1;
    LoopProgram program;
    std::vector<int> inputs;  // nodes whose memory the epilogue reads
  };

  const GraphNode& node(int id) const { return graph_[id]; }
  const View& view(int id) const { return views_[static_cast<size_t>(id)]; }
  bool is_output(int id) const { return is_output_[static_cast<size_t>(id)]; }
  /// The last contraction that the value needs; -1: none.
  int latest(int id) const { return latest_[static_cast<size_t>(id)]; }

  /// Whether it is an input whose memory a result may take over.
  bool is_old_value(int id, const Shape& shape) const {
    const int base = view(id).base;
    return view(id).kind == View::Kind::memory && is_donated_[static_cast<size_t>(base)] &&
           node(base).type.shape == shape;
  }
  /// Whether nothing but `members` uses the value.
  bool only_used_in(int id, const std::set<int>& members) const {
    return !is_output(id) && std::ranges::all_of(users_[static_cast<size_t>(id)],
                                                 [&](int user) { return members.contains(user); });
  }
  /// Whether a node could be part of a loop over `space`, beside the contraction.
  bool fits(int id, int contraction, const Shape& space) const {
    const GraphNode& n = node(id);
    return is_elementwise(n.op->prim) && n.type.shape == space && n.after.empty() &&
           n.layout == node(contraction).layout && n.type.device == node(contraction).type.device &&
           !taken_[static_cast<size_t>(id)];
  }

  void find(int contraction) {
    const GraphNode& c = node(contraction);
    // `depends`: nodes that depend on the contraction. `results`: its result, perhaps reshaped. `ops`:
    // elementwise ops on the result that an epilogue could compute. `values`: all elementwise ops on it.
    std::vector<bool> depends(graph_.nodes.size());
    std::set<int> results{contraction}, ops, values;
    depends[static_cast<size_t>(contraction)] = true;
    const auto depends_on_it = [&](int id) { return depends[static_cast<size_t>(id)]; };
    Shape space = c.type.shape;
    for (int id = contraction + 1; id < static_cast<int>(graph_.nodes.size()); ++id) {
      const GraphNode& n = node(id);
      if (std::ranges::none_of(n.inputs, depends_on_it) && std::ranges::none_of(n.after, depends_on_it))
        continue;
      depends[static_cast<size_t>(id)] = true;
      if (is_elementwise(n.op->prim) && n.type.shape.size() == c.type.shape.size() &&
          std::ranges::any_of(n.inputs, [&](int i) { return results.contains(i) || values.contains(i); })) {
        values.insert(id);
        if (std::ranges::any_of(n.inputs, [&](int input) { return is_old_value(input, n.type.shape); }))
          return;  // a parameter's update, which runs with the others, in place
      }
      if (is_movement(n.op->prim)) {
        if (view(id).base == contraction && is_whole(graph_, views_, id)) results.insert(id);
        continue;
      }
      if (n.type.shape.size() != c.type.shape.size()) continue;
      if (!fits(id, contraction, ops.empty() ? n.type.shape : space) || !is_continuous(n.op->prim) ||
          !is_float(n.type.dtype))
        continue;
      if (!std::ranges::all_of(n.inputs, [&](int input) {
            return !depends_on_it(input) || results.contains(input) || ops.contains(input);
          }))
        continue;
      if (ops.empty()) space = n.type.shape;
      ops.insert(id);
    }
    // The longest chain that the device's kernels compute.
    for (auto end = ops.rbegin(); end != ops.rend(); ++end)
      if (node(*end).type.dtype == c.type.dtype && take(contraction, results, ops, *end)) return;
  }

  /// Makes the ops from the contraction to `end` its epilogue, if possible.
  bool take(int contraction, const std::set<int>& results, const std::set<int>& ops, int end) {
    std::set<int> members{end};
    for (auto id = std::make_reverse_iterator(ops.upper_bound(end)); id != ops.rend(); ++id)
      if (members.contains(*id))
        for (const int input : node(*id).inputs)
          if (ops.contains(input)) members.insert(input);
    for (const int id : members)
      if (id != end && !only_used_in(id, members)) return false;
    std::set<int> readers = members;
    readers.insert(results.begin(), results.end());
    for (const int id : results)
      if (!only_used_in(id, readers)) return false;
    add_sides(members, contraction, node(end).type.shape);

    Fusion fusion;
    fusion.group_of.assign(graph_.nodes.size(), -1);
    fusion.stored.assign(graph_.nodes.size(), false);
    fusion.recomputed.assign(graph_.nodes.size(), false);
    fusion.stored[static_cast<size_t>(end)] = true;
    LoopGroup group;
    group.space = node(end).type.shape;
    group.body.assign(members.begin(), members.end());
    const EmittedLoop loop = emit_loop(graph_, views_, fusion, group);
    Chain chain{contraction, loop.program, {}};
    if (!number_buffers(chain, loop, end) || !is_taken_by_device(chain)) return false;
    for (const int id : members)
      if (id == end || only_used_in(id, members)) taken_[static_cast<size_t>(id)] = true;
    chains_.emplace(end, std::move(chain));
    return true;
  }

  /// Adds values that are only needed here, and values that are cheaper to recompute than to read.
  void add_sides(std::set<int>& members, int contraction, const Shape& space) const {
    std::set<int, std::greater<>> sides;
    const auto add_inputs = [&](int id) {
      for (const int input : node(id).inputs)
        if (!members.contains(input) && fits(input, contraction, space) && !is_output(input))
          sides.insert(input);
    };
    for (const int id : members) add_inputs(id);
    while (!sides.empty() && members.size() < max_epilogue_steps) {
      const int id = *sides.begin();
      sides.erase(sides.begin());
      size_t steps = max_epilogue_steps;
      if (!only_used_in(id, members) && !is_made_of_little(id, contraction, space, steps) &&
          !is_cheap(id, contraction, space))
        continue;
      members.insert(id);
      add_inputs(id);
    }
  }

  /// Whether the value must be in memory, because it is an output or users other than loops read it.
  bool is_in_memory(int id) const {
    return is_output(id) || chains_.contains(id) ||
           !std::ranges::all_of(users_[static_cast<size_t>(id)], [&](int user) {
             return is_elementwise(node(user).op->prim) || is_reduction(node(user).op->prim);
           });
  }

  /// Whether loops recompute the value instead of reading it.
  bool is_cheap(int id, int contraction, const Shape& space) const {
    std::set<int> reads;
    size_t steps = 0;
    return count_again(id, contraction, space, reads, steps) && reads.size() <= max_again_reads;
  }
  bool count_again(int id, int contraction, const Shape& space, std::set<int>& reads, size_t& steps) const {
    if (!fits(id, contraction, space) || is_costly(node(id).op->prim) || is_in_memory(id) ||
        ++steps > max_again_steps)
      return false;
    for (const int input : node(id).inputs) {
      if (view(input).kind != View::Kind::memory) continue;
      std::set<int> below;
      if (is_elementwise(node(input).op->prim) && count_again(input, contraction, space, below, steps))
        reads.insert(below.begin(), below.end());
      else if (node(view(input).base).type.shape.size() == space.size())
        reads.insert(view(input).base);
    }
    return steps <= max_again_steps;
  }

  /// Whether a value of the space is computed from indices and few numbers, such as a mask for dropout.
  bool is_made_of_little(int id, int contraction, const Shape& space, size_t& steps) const {
    if (!fits(id, contraction, space) || is_output(id) || steps == 0) return false;
    --steps;
    return std::ranges::all_of(node(id).inputs, [&](int input) {
      if (view(input).kind != View::Kind::memory) return true;
      if (is_elementwise(node(input).op->prim)) return is_made_of_little(input, contraction, space, steps);
      return node(view(input).base).type.shape.size() * small_part <= space.size();
    });
  }

  /// Numbers the buffers: 0 is the contraction's result, then come the inputs, and last the output.
  bool number_buffers(Chain& chain, const EmittedLoop& loop, int end) const {
    std::vector<int> number(static_cast<size_t>(chain.program.buffers), chain.program.buffers - 1);
    for (size_t i = 0; i < loop.reads.size(); ++i) {
      const int read = loop.reads[i];
      if (read == chain.contraction) {
        number[i] = 0;
        continue;
      }
      // If the results of two contractions are added, the later contraction adds them.
      if (latest(read) > chain.contraction) return false;
      // While the contraction runs, its own operands take memory too.
      if (spares_memory_ && node(read).type.shape.size() >= node(end).type.shape.size()) return false;
      chain.inputs.push_back(read);
      number[i] = static_cast<int>(chain.inputs.size());
    }
    for (LoopOperand& operand : chain.program.operands)
      operand.buffer = number[static_cast<size_t>(operand.buffer)];
    return chain.inputs.size() <= max_epilogue_inputs && chain.program.body.size() <= 2 * max_epilogue_steps;
  }

  bool is_taken_by_device(const Chain& chain) const {
    const GraphNode& c = node(chain.contraction);
    KernelRequest request{.op = c.op,
                          .attrs = c.attrs,
                          .inputs = {},
                          .outputs = {operand_of(graph_, views_, chain.contraction)},
                          .epilogue = chain.program};
    for (const auto* list : {&c.inputs, &chain.inputs})
      for (const int input : *list) request.inputs.push_back(operand_of(graph_, views_, input));
    return backend_of(c.type.device).takes_epilogue(c.type.device.index, request);
  }

  Graph fused() const {
    if (chains_.empty()) return graph_;
    static const Op& reshape = find_primitive(Prim::reshape);
    Graph result;
    std::vector<int> renamed;
    const auto renamed_of = [&](int id) { return renamed[static_cast<size_t>(id)]; };
    for (int id = 0; id < static_cast<int>(graph_.nodes.size()); ++id) {
      const GraphNode& old = node(id);
      const auto found = chains_.find(id);
      GraphNode copy = found == chains_.end() ? old : node(found->second.contraction);
      copy.rename(renamed_of);
      if (found == chains_.end()) {
        renamed.push_back(result.add(std::move(copy)));
        continue;
      }
      // The contraction with its epilogue replaces the end of the chain. The old contraction is dead.
      const Chain& chain = found->second;
      for (const int input : chain.inputs) copy.inputs.push_back(renamed_of(input));
      copy.epilogue = chain.program;
      copy.segment = old.segment;
      int last = result.add(std::move(copy));
      if (result[last].type.shape != old.type.shape)
        last = result.add({.op = &reshape,
                           .attrs = {{"shape", old.type.shape.to_ints()}},
                           .inputs = {last},
                           .type = old.type,
                           .layout = {},
                           .epilogue = {},
                           .where = old.where,
                           .part = old.part,
                           .segment = old.segment});
      renamed.push_back(last);
    }
    for (const int input : graph_.inputs) result.inputs.push_back(renamed_of(input));
    for (const int output : graph_.outputs) result.outputs.push_back(renamed_of(output));
    return remove_dead(result);
  }

  const Graph& graph_;
  bool spares_memory_;
  std::vector<View> views_;
  std::vector<std::vector<int>> users_;
  std::vector<int> latest_;
  std::vector<bool> is_output_, is_donated_, taken_;
  std::map<int, Chain> chains_;  // by their last node
};

}  // namespace

Graph fuse_epilogues(const Graph& graph, const std::vector<bool>& donated, const CompileOptions& options) {
  return options.enabled(Pass::epilogue) ? EpilogueFuser(graph, donated, options.spares_memory).run() : graph;
}

}  // namespace athanor
