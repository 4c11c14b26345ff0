#include "athanor/compile/views.h"

#include <map>
#include <optional>
#include <set>

#include "athanor/base/error.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

// Strides over `to` that read a tensor of shape `from` and strides `strides` in order; nullopt if none do.
std::optional<Ints> reshape_strides(const Shape& from, const Ints& strides, const Shape& to) {
  Ints result(static_cast<size_t>(to.rank()), 0);
  if (to.size() == 0) return result;
  // Cuts both shapes into the shortest runs of axes of equal size. A run's elements must have one stride.
  int i = 0, j = 0;
  while (i < from.rank() || j < to.rank()) {
    const int i0 = i, j0 = j;
    int64_t size_from = i < from.rank() ? from[i++] : 1, size_to = j < to.rank() ? to[j++] : 1;
    while (size_from != size_to) {
      if (size_from < size_to)
        size_from *= from[i++];
      else
        size_to *= to[j++];
    }
    int64_t stride = 0, extent = 1;  // of the merged run of `from`
    for (int k = i - 1; k >= i0; --k) {
      if (from[k] == 1) continue;
      const int64_t s = strides[static_cast<size_t>(k)];
      if (extent == 1)
        stride = s;
      else if (s != stride * extent)
        return std::nullopt;
      extent *= from[k];
    }
    for (int k = j - 1; k >= j0; --k) {
      result[static_cast<size_t>(k)] = stride;
      stride *= to[k];
    }
  }
  return result;
}

std::optional<View> view_of(const GraphNode& node, const View& input, const Shape& from) {
  View view = input;
  const Shape& to = node.type.shape;
  const auto at = [](const Ints& v, int i) { return v[static_cast<size_t>(i)]; };
  switch (node.op->prim) {
    case Prim::reshape: {
      auto strides = reshape_strides(from, input.strides, to);
      if (!strides) return std::nullopt;
      view.strides = *strides;
      break;
    }
    case Prim::permute:
      view.strides.clear();
      for (int64_t axis : node.attrs.ints("axes"))
        view.strides.push_back(at(input.strides, static_cast<int>(axis)));
      break;
    case Prim::broadcast: {
      view.strides.assign(static_cast<size_t>(to.rank()), 0);
      const int shift = to.rank() - from.rank();
      for (int i = 0; i < from.rank(); ++i)
        if (from[i] == to[i + shift]) view.strides[static_cast<size_t>(i + shift)] = at(input.strides, i);
      break;
    }
    case Prim::slice:
      for (int i = 0; i < to.rank(); ++i) {
        view.offset += at(node.attrs.ints("start"), i) * at(input.strides, i);
        view.strides[static_cast<size_t>(i)] *= at(node.attrs.ints("step"), i);
      }
      break;
    case Prim::unfold: {
      const auto axis = node.attrs.integer("axis");
      const int64_t stride = at(input.strides, static_cast<int>(axis));
      view.strides[static_cast<size_t>(axis)] = stride * node.attrs.integer("step");
      view.strides.insert(view.strides.begin() + axis + 1, stride * node.attrs.integer("dilation"));
      break;
    }
    default:
      return std::nullopt;
  }
  return view;
}

bool is_view_op(Prim p) {
  return p == Prim::reshape || p == Prim::permute || p == Prim::broadcast || p == Prim::slice ||
         p == Prim::unfold;
}

// The view of a node that is not a movement: itself.
View own_view(const Graph& graph, int id) {
  const GraphNode& node = graph[id];
  View view;
  view.base = id;
  if (node.op->prim == Prim::constant) {
    view.kind = View::Kind::constant;
    view.value = node.attrs.number("value");
    view.strides.assign(static_cast<size_t>(node.type.shape.rank()), 0);
  } else if (node.op->prim == Prim::iota) {
    view.kind = View::Kind::index;
    view.strides.assign(static_cast<size_t>(node.type.shape.rank()), 0);
    view.strides[static_cast<size_t>(node.attrs.integer("axis"))] = 1;
  } else if (node.layout.is_channels_last()) {
    view.strides = channels_last_strides(node.type.shape);
  } else if (node.order.empty()) {
    view.strides = contiguous_strides(node.type.shape);
  } else {
    view.strides.assign(node.order.size(), 1);
    int64_t below = 1;
    for (size_t i = node.order.size(); i-- > 0;) {
      view.strides[static_cast<size_t>(node.order[i])] = below;
      below *= node.type.shape[static_cast<int>(node.order[i])];
    }
  }
  return view;
}

class Copies {
 public:
  explicit Copies(const Graph& source) : source_(source) {}

  Graph run() {
    const std::vector<Ints> orders = wanted_orders();
    for (size_t i = 0; i < source_.nodes.size(); ++i) {
      GraphNode node = source_.nodes[i];
      node.order = orders[i];
      node.rename([&](int id) { return renamed(id); });
      place(std::move(node));
    }
    for (int input : source_.inputs) result_.inputs.push_back(renamed(input));
    std::set<int> taken;
    for (int output : source_.outputs) {
      int id = dense(renamed(output));
      // An output needs its own memory: neither an input's nor another output's.
      const auto base = [&] { return views_[static_cast<size_t>(id)].base; };
      if (taken.contains(base()) || result_[base()].op->prim == Prim::input) id = copy(id);
      taken.insert(base());
      result_.outputs.push_back(id);
    }
    return std::move(result_);
  }

 private:
  int renamed(int id) const { return renamed_[static_cast<size_t>(id)]; }

  int add(GraphNode node, View view) {
    views_.push_back(std::move(view));
    return result_.add(std::move(node));
  }

  void place(GraphNode node) {
    const Prim prim = node.op->prim;
    if (is_view_op(prim)) {
      int input = node.inputs[0];
      auto view = view_of(node, views_[static_cast<size_t>(input)], result_[input].type.shape);
      if (!view) {
        node.inputs[0] = input = copy(input);
        view = view_of(node, views_[static_cast<size_t>(input)], result_[input].type.shape);
      }
      renamed_.push_back(add(std::move(node), *view));
      return;
    }
    const bool loop = is_elementwise(prim) || is_reduction(prim) || prim == Prim::input;
    if (!loop && takes_strides(node))
      for (int& input : node.inputs) input = in_rows(input);
    else if (!loop)
      node.inputs = readable(node.inputs, prim);
    View view = own_view_of(node);
    renamed_.push_back(add(std::move(node), std::move(view)));
  }

  static bool takes_strides(const GraphNode& node) {
    return node.op->prim == Prim::none && backend_of(node.type.device).takes_strides(*node.op);
  }

  /// For each node: the order of axes that its result is written in, if a permute reads it in another order
  /// and the kernel can write it so; else {}.
  std::vector<Ints> wanted_orders() const {
    std::vector<Ints> orders(source_.nodes.size());
    for (const GraphNode& user : source_.nodes) {
      if (user.op->prim != Prim::permute) continue;
      const auto from = static_cast<size_t>(user.inputs[0]);
      const Ints axes = user.attrs.ints("axes");
      const bool keeps_rows = !axes.empty() && axes.back() == static_cast<int64_t>(axes.size()) - 1;
      if (orders[from].empty() && keeps_rows && takes_strides(source_.nodes[from])) orders[from] = axes;
    }
    return orders;
  }

  /// `id`, or a copy if the elements of its rows are not adjacent in memory. All ops get the same copy.
  int in_rows(int id) {
    const View& view = views_[static_cast<size_t>(id)];
    const Shape& shape = result_[id].type.shape;
    const bool rows = view.kind == View::Kind::memory && result_[view.base].layout.block == 0 &&
                      (shape.rank() == 0 || shape[-1] == 1 || view.strides.back() == 1);
    if (rows) return id;
    const auto [copied, fresh] = copied_rows_.emplace(id, -1);
    if (fresh) copied->second = dense(id);
    return copied->second;
  }

  /// The inputs, copied where necessary. Kernels of primitives accept any strides. Kernels of whole ops need
  /// dense memory, and so do copies to other devices, which copy bytes. Ops with the same inputs get the same
  /// copies, so that one kernel can compute both.
  std::vector<int> readable(const std::vector<int>& inputs, Prim prim) {
    const bool only_dense = prim == Prim::none || prim == Prim::to;
    if (const auto found = copied_.find(inputs); only_dense && found != copied_.end()) return found->second;
    std::vector<int> read = inputs;
    for (int& input : read) {
      const bool in_memory = views_[static_cast<size_t>(input)].kind == View::Kind::memory;
      if (only_dense || !in_memory) input = dense(input);
    }
    if (only_dense) copied_.emplace(inputs, read);
    return read;
  }

  View own_view_of(const GraphNode& node) {
    result_.nodes.push_back(node);
    View view = own_view(result_, static_cast<int>(result_.nodes.size()) - 1);
    result_.nodes.pop_back();
    return view;
  }

  int copy(int id) {
    static const Op& cast = find_primitive(Prim::cast);
    const GraphNode& from = result_[id];
    GraphNode node{.op = &cast,
                   .attrs = {{"dtype", from.type.dtype}},
                   .inputs = {id},
                   .type = from.type,
                   .layout = from.layout,
                   .epilogue = {},
                   .where = from.where,
                   .part = from.part,
                   .segment = from.segment};
    View view = own_view_of(node);
    return add(std::move(node), std::move(view));
  }

  // `id`, or a copy if it is not the whole memory of a node in order.
  int dense(int id) { return is_whole(result_, views_, id) ? id : copy(id); }

  const Graph& source_;
  Graph result_;
  std::vector<View> views_;
  std::vector<int> renamed_;
  std::map<std::vector<int>, std::vector<int>> copied_;
  std::map<int, int> copied_rows_;
};

}  // namespace

bool is_whole(const Graph& graph, const std::vector<View>& views, int id) {
  const View& view = views[static_cast<size_t>(id)];
  if (view.kind != View::Kind::memory) return false;
  const GraphNode& base = graph[view.base];
  const Shape& shape = graph[id].type.shape;
  // The order of blocked memory, and of memory with channels last, has a meaning only with the base's shape.
  if (base.layout.block != 0)
    return shape == base.type.shape && view.offset == 0 &&
           view.strides == views[static_cast<size_t>(view.base)].strides;
  if (view.offset != 0 || shape.size() != base.type.shape.size()) return false;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && view.strides[static_cast<size_t>(i)] != stride) return false;
    stride *= shape[i];
  }
  return true;
}

std::vector<View> find_views(const Graph& graph) {
  std::vector<View> views;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!is_view_op(node.op->prim)) {
      views.push_back(own_view(graph, static_cast<int>(i)));
      continue;
    }
    auto view = view_of(node, views[static_cast<size_t>(node.inputs[0])], graph[node.inputs[0]].type.shape);
    if (!view)
      throw Error(ErrorCode::internal, "a reshape needs a copy that was not added", to_string(node.where));
    views.push_back(std::move(*view));
  }
  return views;
}

OperandDesc operand_of(const Graph& graph, const std::vector<View>& views, int id) {
  const View& view = views[static_cast<size_t>(id)];
  const GraphNode& node = graph[id];
  const Layout layout = graph[view.base].layout;
  if (layout.block > 0)
    return {node.type.dtype, node.type.shape, layout, contiguous_strides(node.type.shape)};
  return {node.type.dtype, node.type.shape, {}, view.strides};
}

Graph add_copies(const Graph& graph) { return Copies(graph).run(); }

}  // namespace athanor
