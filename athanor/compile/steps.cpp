// From a graph of primitives to the steps of a plan.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "athanor/base/error.h"
#include "athanor/compile/emit.h"
#include "athanor/compile/plan.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/epilogue.h"

namespace athanor {
namespace {

class StepMaker {
 public:
  StepMaker(const Graph& graph, const CompileOptions& options)
      : graph_(graph),
        libraries_(options.enabled(Pass::libraries)),
        views_(find_views(graph)),
        fusion_(fuse(graph, views_, options.enabled(Pass::fuse))),
        together_(options.enabled(Pass::join)) {}

  Plan run() {
    make_bound_values();
    // Groups and kernels of ops together, ordered by level, and by age within a level, which keeps the user's
    // order.
    struct Pending {
      int level, age, group, node;
    };
    std::vector<Pending> order;
    for (int g = 0; g < static_cast<int>(fusion_.groups.size()); ++g) {
      const LoopGroup& group = fusion_.groups[static_cast<size_t>(g)];
      int age = 0;
      for (const auto* list : {&group.body, &group.reductions, &group.epilogue})
        for (int id : *list) age = std::max(age, id);
      order.push_back({group.level, age, g, -1});
    }
    const std::vector<int> levels = op_levels();
    for (int id = 0; id < static_cast<int>(graph_.nodes.size()); ++id)
      if (is_kernel_op(id)) order.push_back({levels[static_cast<size_t>(id)], id, -1, id});
    std::sort(order.begin(), order.end(), [](const Pending& a, const Pending& b) {
      return a.level != b.level ? a.level < b.level : a.age < b.age;
    });
    for (const auto& item : order)
      item.group >= 0 ? add_loop(fusion_.groups[static_cast<size_t>(item.group)]) : add_kernel(item.node);
    return std::move(plan_);
  }

 private:
  const GraphNode& node(int id) const { return graph_[id]; }
  const View& view(int id) const { return views_[static_cast<size_t>(id)]; }

  bool is_kernel_op(int id) const {
    const Prim p = node(id).op->prim;
    return view(id).kind == View::Kind::memory && view(id).base == id && p != Prim::input &&
           !is_elementwise(p) && !is_reduction(p);
  }

  void make_bound_values() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const int v = value_of(graph_.inputs[i]);
      plan_.values[static_cast<size_t>(v)].kind = PlanValue::Kind::input;
      plan_.values[static_cast<size_t>(v)].binding = static_cast<int>(i);
      plan_.inputs.push_back(v);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const int v = value_of(view(graph_.outputs[i]).base);
      plan_.values[static_cast<size_t>(v)].kind = PlanValue::Kind::output;
      plan_.values[static_cast<size_t>(v)].binding = static_cast<int>(i);
      plan_.outputs.push_back(v);
    }
    if (!graph_.outputs.empty()) add_device(node(graph_.outputs.front()).type.device);
    for (const int v : plan_.inputs) add_device(plan_.values[static_cast<size_t>(v)].type.device);
  }

  void add_device(Device device) {
    if (std::ranges::find(plan_.devices, device) == plan_.devices.end()) plan_.devices.push_back(device);
  }

  int value_of(int base) {
    auto [it, fresh] = values_.emplace(base, static_cast<int>(plan_.values.size()));
    if (fresh)
      plan_.values.push_back(
          {.type = node(base).type, .layout = node(base).layout, .segment = node(base).segment});
    return it->second;
  }

  // The level of each kernel op: one above everything that it reads or comes after.
  std::vector<int> op_levels() const {
    std::vector<int> levels(graph_.nodes.size(), 0);
    for (int id = 0; id < static_cast<int>(graph_.nodes.size()); ++id) {
      if (!is_kernel_op(id)) continue;
      for (const auto* list : {&node(id).inputs, &node(id).after})
        for (int earlier : *list) {
          if (view(earlier).kind != View::Kind::memory) continue;
          const int base = view(earlier).base, group = fusion_.group_of[static_cast<size_t>(base)];
          const int below = group >= 0 ? fusion_.groups[static_cast<size_t>(group)].level
                                       : levels[static_cast<size_t>(base)];
          levels[static_cast<size_t>(id)] = std::max(levels[static_cast<size_t>(id)], below + 1);
        }
    }
    return levels;
  }

  void finish(PlanStep step, const std::vector<int>& computed, int last) {
    step.device = node(last).type.device;
    add_device(step.device);
    if (step.kind == PlanStep::Kind::launch) step.queue = plan_.queue_number({step.device});
    step.where = node(last).where.line() == 0 ? std::string() : to_string(node(last).where);
    for (int id : computed) {
      for (int earlier : node(id).after)
        if (const auto found = written_.find(view(earlier).base); found != written_.end())
          step.after.push_back(found->second);
      written_[id] = step.writes.front();
    }
    for (int id : computed)
      if (node(id).part && !node(id).part->empty()) add_part(step.parts, *node(id).part);
    plan_.steps.push_back(std::move(step));
  }

  // Keeps the parts distinct. If one part lies inside another, keeps only the inner one.
  static void add_part(std::vector<std::string>& parts, const std::string& part) {
    const auto lies_in = [](const std::string& inner, const std::string& outer) {
      return inner == outer || (inner.starts_with(outer) && inner[outer.size()] == '.');
    };
    for (const auto& known : parts)
      if (lies_in(known, part)) return;
    std::erase_if(parts, [&](const std::string& known) { return lies_in(part, known); });
    parts.push_back(part);
  }

  void add_loop(const LoopGroup& group) {
    EmittedLoop loop = emit_loop(graph_, views_, fusion_, group);
    if (loop.writes.empty()) return;
    PlanStep step;
    std::set<int> memory;
    for (int id : loop.reads)
      step.reads.push_back(value_of(id)), step.buffers.push_back({value_of(id), 0}), memory.insert(id);
    for (int id : loop.writes)
      step.writes.push_back(value_of(id)), step.buffers.push_back({value_of(id), 0}), memory.insert(id);
    for (int id : loop.computed) step.ops.push_back(op_name(id));
    step.flops = loop.program.flops();
    step.bytes = loop.program.bytes();
    step.loops.push_back(std::move(loop.program));
    if (loop.computed.empty()) loop.computed.push_back(loop.writes.back());
    finish(std::move(step), loop.computed, *std::max_element(loop.computed.begin(), loop.computed.end()));
  }

  std::string op_name(int id) const {
    const GraphNode& n = node(id);
    if (n.op->prim != Prim::cast) return n.op->name;
    const DType from = node(n.inputs[0]).type.dtype, to = n.type.dtype;
    if (from == to) return "copy";
    return is_float(from) && is_float(to) ? fmt::format("cast to {}", to_string(to)) : n.op->name;
  }

  // A copy runs beside the kernels of its source's device. Copies from the host run beside the target's.
  void add_copy(int id) {
    const GraphNode& n = node(id);
    const int from = value_of(view(n.inputs[0]).base), to = value_of(id);
    const Device giver = node(n.inputs[0]).type.device, taker = n.type.device;
    PlanStep step;
    step.kind = PlanStep::Kind::copy;
    step.queue = plan_.queue_number(giver == taker      ? PlanQueue{taker}
                                    : giver == Device{} ? PlanQueue{taker, QueueKind::copies_in}
                                                        : PlanQueue{giver, QueueKind::copies_out});
    step.ops.push_back(n.op->name);
    step.reads.push_back(from);
    step.writes.push_back(to);
    step.buffers = {{from, 0}, {to, 0}};
    step.bytes = 2 * static_cast<int64_t>(n.type.bytes());
    step.kernel.name = "copy";
    step.why = fmt::format("from {}", to_string(giver));
    finish(std::move(step), {id}, id);
  }

  void add_kernel(int id) {
    const GraphNode& n = node(id);
    if (n.op->prim == Prim::to) return add_copy(id);
    if (computed_along_.contains(id)) return;
    PlanStep step;
    KernelRequest request{
        .op = n.op, .attrs = n.attrs, .inputs = {}, .outputs = {describe(id)}, .epilogue = n.epilogue};
    if (n.precision == Precision::tf32) request.compute = ComputeType::tf32;
    request.libraries = libraries_;
    for (int input : n.inputs) {
      request.inputs.push_back(describe(input));
      const View& v = view(input);
      const int value = value_of(v.base);
      const int64_t start = v.offset * static_cast<int64_t>(size_of(node(input).type.dtype));
      request.inputs.back().alignment = std::gcd(start, OperandDesc::whole_vectors);
      step.buffers.push_back({value, start});
      if (std::find(step.reads.begin(), step.reads.end(), value) == step.reads.end())
        step.reads.push_back(value);
      step.bytes += static_cast<int64_t>(node(input).type.bytes());
    }
    step.writes.push_back(value_of(id));
    step.buffers.push_back({value_of(id), 0});
    step.bytes += static_cast<int64_t>(n.type.bytes());
    step.ops.push_back(n.op->name);
    std::ranges::move(epilogue_names(request), std::back_inserter(step.ops));
    std::vector<int> computed{id};
    for (const int other : sharing(id, request)) {
      const GraphNode& along = node(other);
      computed_along_.insert(other);
      computed.push_back(other);
      request.with.push_back(along.op);
      request.outputs.push_back(describe(other));
      step.writes.push_back(value_of(other));
      step.buffers.push_back({value_of(other), 0});
      step.bytes += static_cast<int64_t>(along.type.bytes());
      step.ops.push_back(along.op->name);
    }
    step.off_device = n.off_device;
    step.flops = request.flops();
    step.request = std::move(request);
    finish(std::move(step), computed, id);
  }

  // The nodes that the op's kernel computes as well: of those that share work, each with the one before, as
  // many as the device computes together.
  std::vector<int> sharing(int id, const KernelRequest& request) const {
    std::vector<int> found;
    if (!together_) return found;
    for (int next = partner(id); next >= 0; next = partner(next)) found.push_back(next);
    for (; !found.empty(); found.pop_back()) {
      KernelRequest all = request;
      for (const int other : found) {
        all.with.push_back(node(other).op);
        all.outputs.push_back(describe(other));
      }
      const Device device = node(id).type.device;
      if (backend_of(device).computes_together(device.index, all)) break;
    }
    return found;
  }

  // The node of the op that shares work with this one; -1 if there is none.
  int partner(int id) const {
    const GraphNode& n = node(id);
    // A value of a segment (nn::checkpoint), which is recomputed later, needs a kernel of its own.
    if (n.op->shares_with.empty() || n.segment.number != 0) return -1;
    const auto takes_some = [](const std::vector<int>& some, const std::vector<int>& all) {
      auto next = some.begin();
      for (const int input : all)
        if (next != some.end() && *next == input) ++next;
      return next == some.end();
    };
    for (int other = 0; other < static_cast<int>(graph_.nodes.size()); ++other) {
      const GraphNode& o = node(other);
      if (o.op->name == n.op->shares_with && is_kernel_op(other) && takes_some(o.inputs, n.inputs) &&
          o.attrs == n.attrs && o.after == n.after && !computed_along_.contains(other))
        return other;
    }
    return -1;
  }

  OperandDesc describe(int id) const { return operand_of(graph_, views_, id); }

  const Graph& graph_;
  bool libraries_;  // whether kernels of vendors' libraries may be used
  std::vector<View> views_;
  Fusion fusion_;
  Plan plan_;
  std::map<int, int> values_;
  bool together_;
  std::set<int> computed_along_;  // nodes that a kernel of another node computes
  std::map<int, int> written_;    // for each computed node: a value that its step writes
};

}  // namespace

Plan make_steps(const Graph& graph, const CompileOptions& options) { return StepMaker(graph, options).run(); }

}  // namespace athanor
