// Mixed precision: bf16 and f16 where each op's CastPolicy allows it, as PyTorch's autocast does.
//
// The pass sees the whole step, so gradients follow the policies of their own ops like all other ops. It
// changes the types that values are stored and multiplied in, not the types of the user's tensors: an f32
// value that the user holds stays f32.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

bool is_plain_movement(const GraphNode& node) {
  const Prim p = node.op->prim;
  return p == Prim::reshape || p == Prim::permute || p == Prim::broadcast;
}

class Caster {
 public:
  explicit Caster(const Graph& source) : source_(source) {}

  Graph run() {
    for (const auto& node : source_.nodes) renamed_.push_back(place(node));
    for (int input : source_.inputs) result_.inputs.push_back(renamed(input));
    for (int output : source_.outputs)
      result_.outputs.push_back(widened(renamed(output), source_[output].type.dtype, source_[output]));
    return std::move(result_);
  }

 private:
  int renamed(int id) const { return renamed_[static_cast<size_t>(id)]; }
  DType declared(int id) const { return source_[id].type.dtype; }
  DType now(int id) const { return result_[id].type.dtype; }

  int place(const GraphNode& original) {
    GraphNode node = original;
    node.rename([&](int id) { return renamed(id); });
    node.precision = Precision::f32;
    const DType low = stored_in(original.precision);
    if (low == DType::f32 || !takes_part(original)) return exact(original, std::move(node));
    switch (original.op->cast_policy) {
      case CastPolicy::allow:
        return in_low(original, std::move(node), low);
      case CastPolicy::promote:
        return promoted(original, std::move(node));
      case CastPolicy::deny:
        break;
    }
    return exact(original, std::move(node));
  }

  // Whether the policy applies: only to ops on f32. Values that the user gave another type keep it.
  bool takes_part(const GraphNode& original) const {
    const auto is_f32 = [&](int id) { return declared(id) == DType::f32; };
    const auto fits = [&](int id) { return is_f32(id) || !is_float(declared(id)); };
    return original.op->prim != Prim::cast && std::ranges::any_of(original.inputs, is_f32) &&
           std::ranges::all_of(original.inputs, fits);
  }

  // Adds the node with the types that the graph declares.
  int exact(const GraphNode& original, GraphNode node) {
    bool all_f32 = node.type.dtype == DType::f32;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      node.inputs[i] = widened(node.inputs[i], declared(original.inputs[i]), original);
      all_f32 &= now(node.inputs[i]) == DType::f32;
    }
    if (original.precision == Precision::tf32 && all_f32 && original.op->cast_policy == CastPolicy::allow)
      node.precision = Precision::tf32;
    return result_.add(std::move(node));
  }

  int in_low(const GraphNode& original, GraphNode node, DType low) {
    const auto& kept = original.op->exact_inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (declared(original.inputs[i]) != DType::f32) continue;
      node.inputs[i] = std::ranges::find(kept, i) == kept.end()
                           ? narrowed(node.inputs[i], low, original)
                           : widened(node.inputs[i], DType::f32, original);
    }
    return add_inferred(std::move(node));
  }

  int promoted(const GraphNode& original, GraphNode node) {
    const bool elementwise = is_elementwise(node.op->prim);
    std::optional<DType> narrow;
    bool wide = false;
    const auto look = [&](bool at_spread) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const int id = node.inputs[i];
        if (declared(original.inputs[i]) != DType::f32 || (!at_spread && is_spread(id))) continue;
        if (now(id) == DType::f32 || (narrow && *narrow != now(id)))
          wide = true;  // also for bf16 beside f16
        else
          narrow = now(id);
      }
    };
    look(!elementwise);
    if (!narrow && !wide) look(true);
    if (wide || !narrow) return exact(original, std::move(node));
    if (!elementwise) return add_inferred(std::move(node));
    // Elementwise primitives compute in f32 whatever the stored types are, so operands may differ in type.
    if (node.type.dtype == DType::f32) node.type.dtype = *narrow;
    return result_.add(std::move(node));
  }

  int add_inferred(GraphNode node) {
    std::vector<TensorType> types;
    for (int input : node.inputs) types.push_back(result_[input].type);
    const Device device = node.type.device;
    node.type = node.op->infer(types, node.attrs);
    node.type.device = device;
    return result_.add(std::move(node));
  }

  // Whether a value repeats a smaller one: a number, or a vector that is broadcast to rows.
  bool is_spread(int id) const {
    const int64_t size = result_[id].type.shape.size();
    for (;; id = result_[id].inputs[0]) {
      const GraphNode& node = result_[id];
      if (node.type.shape.size() < size) return true;
      if (node.op->prim == Prim::constant) return size > 1;
      if (!is_plain_movement(node)) return false;
    }
  }

  // The value rounded to `low`, once for all its readers. The cast comes before reshapes and transposes, so
  // that other readers of a weight share it.
  int narrowed(int id, DType low, const GraphNode& reader) {
    if (now(id) == low) return id;
    const auto key = std::pair(id, low);
    if (const auto found = casts_.find(key); found != casts_.end()) return found->second;
    GraphNode node = result_[id];
    if (is_plain_movement(node) || node.op->prim == Prim::constant) {
      if (node.op->prim == Prim::constant)
        node.attrs.set("dtype", low);
      else
        node.inputs[0] = narrowed(node.inputs[0], low, reader);
      node.type.dtype = low;
      return casts_[key] = result_.add(std::move(node));
    }
    if (node.op->prim == Prim::cast && now(node.inputs[0]) == low && now(id) == DType::f32)
      return casts_[key] = node.inputs[0];
    return casts_[key] = add_cast(id, low, reader);
  }

  int widened(int id, DType dtype, const GraphNode& reader) {
    if (now(id) == dtype) return id;
    const auto key = std::pair(id, dtype);
    if (const auto found = casts_.find(key); found != casts_.end()) return found->second;
    return casts_[key] = add_cast(id, dtype, reader);
  }

  int add_cast(int id, DType dtype, const GraphNode& reader) {
    static const Op& cast_op = find_primitive(Prim::cast);
    GraphNode node{.op = &cast_op,
                   .attrs = {{"dtype", dtype}},
                   .inputs = {id},
                   .type = result_[id].type,
                   .layout = {},
                   .epilogue = {},
                   .where = reader.where,
                   .part = reader.part,
                   .segment = Segment{reader.segment.number}};
    node.type.dtype = dtype;
    return result_.add(std::move(node));
  }

  const Graph& source_;
  Graph result_;
  std::vector<int> renamed_;
  std::map<std::pair<int, DType>, int> casts_;
};

}  // namespace

Graph autocast(const Graph& graph) {
  const bool anywhere = std::ranges::any_of(
      graph.nodes, [](const GraphNode& node) { return node.precision != Precision::f32; });
  return anywhere ? Caster(graph).run() : graph;
}

}  // namespace athanor
