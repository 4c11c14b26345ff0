// Layouts: convolutions and pools keep blocked activations from op to op; elementwise ops take their layout,
// and so do concatenations, slices and padding if it is channels last.
#include <map>
#include <utility>

#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

// Converts between layouts. Only this pass makes such nodes: the op has no gradient, and is not registered
// by name.
const Op& reorder_op() {
  static const Op op{
      .name = "reorder",
      .doc = "The same values in another memory layout; [N, C, H, W] -> [N, C, H, W].",
      .infer = [](std::span<const TensorType> in, const Attrs&) { return in[0]; },
      .differentiable = false,
      .flops = [](std::span<const TensorType>, const TensorType&, const Attrs&) { return int64_t{0}; },
  };
  return op;
}

constexpr Layout channels_last{Layout::all_channels};

class LayoutPass {
 public:
  explicit LayoutPass(const Graph& source) : source_(source) {}

  Graph run() {
    for (const auto& node : source_.nodes) renamed_.push_back(place(node));
    for (int input : source_.inputs) result_.inputs.push_back(renamed(input));
    for (int output : source_.outputs) result_.outputs.push_back(in_layout(renamed(output), {}));
    return std::move(result_);
  }

  /// Whether copies to and from channels last are at most a quarter of the kernels' results in that order.
  bool is_worth_it() const { return copied_ <= channels_last_ / 4; }

 private:
  int renamed(int id) const { return renamed_[static_cast<size_t>(id)]; }

  int place(const GraphNode& original) {
    GraphNode node = original;
    node.rename([&](int id) { return renamed(id); });
    std::vector<Layout> wanted(node.inputs.size());  // row-major
    if (node.op->prim == Prim::none) {
      wanted = of_kernel(node);
    } else if (is_elementwise(node.op->prim)) {
      // If one operand with the result's shape is blocked, the whole op is blocked.
      for (int input : node.inputs)
        if (result_[input].layout.block != 0 && result_[input].type.shape == node.type.shape)
          node.layout = result_[input].layout;
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = node.layout;
    } else if (is_reduction(node.op->prim)) {
      wanted[0] = result_[node.inputs[0]].layout;
    } else if (moves_alike(node.op->prim)) {
      node.layout = kept_by_moving(node);
      // Kernels read any strides, and a slice is a view.
      for (size_t i = 0; i < wanted.size(); ++i)
        if (result_[node.inputs[i]].layout == channels_last) wanted[i] = channels_last;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!is_elementwise(node.op->prim) || !is_virtual(node.inputs[i]))
        node.inputs[i] = in_layout(node.inputs[i], wanted[i]);
    return result_.add(std::move(node));
  }

  std::vector<Layout> of_kernel(GraphNode& node) {
    std::vector<TensorType> types;
    for (int input : node.inputs) types.push_back(result_[input].type);
    auto preferred = backend_of(node.type.device).preferred_layouts(*node.op, types, node.type, node.attrs);
    std::vector<Layout> wanted(node.inputs.size());
    if (preferred.empty()) return wanted;
    node.layout = preferred.back();
    preferred.pop_back();
    if (node.layout.is_channels_last()) channels_last_ += node.type.shape.size();
    for (size_t i = 0; i < wanted.size() && i < preferred.size(); ++i) wanted[i] = preferred[i];
    return wanted;
  }

  /// Whether axes stay what they are, so that the result's memory can have the inputs' order.
  static bool moves_alike(Prim prim) {
    return prim == Prim::concat || prim == Prim::slice || prim == Prim::pad;
  }
  /// Channels last, if most of the elements that are moved have them last: their memory has strides, as
  /// row-major memory has. Blocks have none.
  Layout kept_by_moving(const GraphNode& node) const {
    int64_t have = 0, all = 0;
    for (const int input : node.inputs) {
      const int64_t elements = result_[input].type.shape.size();
      all += elements;
      if (result_[input].layout == channels_last) have += elements;
    }
    return 2 * have > all ? channels_last : Layout{};
  }

  // Constants, indices and broadcasts are not stored element by element, so they fit any layout.
  bool is_virtual(int id) const {
    const GraphNode& node = result_[id];
    if (node.op->prim == Prim::constant || node.op->prim == Prim::iota) return true;
    if (node.op->prim == Prim::broadcast) return result_[node.inputs[0]].layout.block == 0;
    return node.op->prim == Prim::reshape && is_virtual(node.inputs[0]);
  }

  int in_layout(int id, Layout wanted) {
    const Layout now = result_[id].layout;
    if (now == wanted) return id;
    const auto key = std::pair(id, wanted.block);
    if (auto found = reordered_.find(key); found != reordered_.end()) return found->second;
    // Loops have operands with channels first and last, so copying is a loop, which may join others.
    static const Op& cast = find_primitive(Prim::cast);
    const bool by_loop = now.is_channels_last() || wanted.is_channels_last();
    const Attrs blocks{{"from_block", int64_t{now.block}}, {"to_block", int64_t{wanted.block}}};
    GraphNode node{.op = by_loop ? &cast : &reorder_op(),
                   .attrs = by_loop ? Attrs{{"dtype", result_[id].type.dtype}} : blocks,
                   .inputs = {id},
                   .type = result_[id].type,
                   .layout = wanted,
                   .epilogue = {},
                   .where = result_[id].where,
                   .part = result_[id].part,
                   .segment = result_[id].segment};
    if (by_loop) copied_ += result_[id].type.shape.size();
    return reordered_[key] = result_.add(std::move(node));
  }

  const Graph& source_;
  Graph result_;
  std::vector<int> renamed_;
  std::map<std::pair<int, int>, int> reordered_;
  // Elements of copies to and from channels last, and of kernels' results in that layout.
  int64_t copied_ = 0, channels_last_ = 0;
};

}  // namespace

Graph choose_layouts(const Graph& graph, const CompileOptions& options) {
  if (!options.enabled(Pass::layout)) return graph;
  LayoutPass pass(graph);
  Graph made = pass.run();
  return pass.is_worth_it() ? made : graph;
}

}  // namespace athanor
