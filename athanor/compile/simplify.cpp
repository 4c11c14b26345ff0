// Simplification: identities, common subexpressions and dead nodes; sums of pads that are concatenations.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

class Simplifier {
 public:
  explicit Simplifier(const Graph& source) : source_(source) {}

  Graph run() {
    std::vector<int> renamed;
    for (const auto& original : source_.nodes) {
      GraphNode node = original;
      node.rename([&](int id) { return renamed[static_cast<size_t>(id)]; });
      renamed.push_back(place(std::move(node)));
    }
    for (int input : source_.inputs) result_.inputs.push_back(renamed[static_cast<size_t>(input)]);
    for (int output : source_.outputs) result_.outputs.push_back(renamed[static_cast<size_t>(output)]);
    return remove_dead(result_);
  }

 private:
  int place(GraphNode node) {
    if (node.op->prim == Prim::input) return result_.add(std::move(node));
    if (const auto same = identity_of_type(node)) return *same;
    if (const auto joined = concat_of_pads(node)) return *joined;
    merge_movement(node);
    if (const auto same = identity_of_type(node)) return *same;
    const uint64_t hash = hash_of(node);
    for (auto [it, end] = seen_.equal_range(hash); it != end; ++it)
      if (equal(result_[it->second], node)) return it->second;
    const int id = result_.add(std::move(node));
    seen_.emplace(hash, id);
    return id;
  }

  static uint64_t hash_of(const GraphNode& node) {
    uint64_t hash = reinterpret_cast<uintptr_t>(node.op) ^ node.attrs.hash();
    for (int input : node.inputs) hash = hash * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(input) + 1;
    return hash ^ static_cast<uint64_t>(node.type.shape.size());
  }

  static bool equal(const GraphNode& a, const GraphNode& b) {
    return a.op == b.op && a.inputs == b.inputs && a.type == b.type && a.attrs == b.attrs &&
           a.epilogue == b.epilogue && a.after == b.after && a.precision == b.precision;
  }

  bool is(int id, double value) const { return result_.number(id) == value; }

  // Like identity(), but only with the result's type: in mixed precision an operand may have another type.
  std::optional<int> identity_of_type(const GraphNode& node) const {
    const auto same = identity(node);
    return same && result_[*same].type == node.type ? same : std::nullopt;
  }

  // Whether `to` can represent every value of `from`.
  static bool holds(DType to, DType from) {
    return to == from || (is_float(from) && is_float(to) && size_of(to) > size_of(from));
  }

  // The earlier value that a node only repeats, if there is one.
  std::optional<int> identity(const GraphNode& node) const {
    const auto in = [&](size_t i) { return node.inputs[i]; };
    const auto in_type = [&](size_t i) -> const TensorType& { return result_[in(i)].type; };
    switch (node.op->prim) {
      case Prim::reshape:
      case Prim::broadcast:
        if (in_type(0).shape == node.type.shape) return in(0);
        break;
      case Prim::permute: {
        const Ints& axes = node.attrs.ints("axes");
        Ints straight(axes.size());
        std::iota(straight.begin(), straight.end(), 0);
        if (axes == straight) return in(0);
        break;
      }
      case Prim::slice:
        if (in_type(0).shape == node.type.shape && in_type(0).shape.size() > 0) {
          const Ints& step = node.attrs.ints("step");
          // With the same extents and a step of 1, the slice is the whole tensor.
          bool whole = true;
          for (int i = 0; i < node.type.shape.rank(); ++i)
            whole &= node.type.shape[i] == 1 || step[static_cast<size_t>(i)] == 1;
          if (whole) return in(0);
        }
        break;
      case Prim::pad:
        if (in_type(0).shape == node.type.shape) return whole_pad(node) ? std::optional(in(0)) : std::nullopt;
        break;
      case Prim::cast:
        if (in_type(0).dtype == node.type.dtype) return in(0);
        // A cast to another type and back does nothing if the first cast loses nothing.
        if (const GraphNode& below = result_[in(0)]; below.op->prim == Prim::cast) {
          const TensorType& source = result_[below.inputs[0]].type;
          if (source.dtype == node.type.dtype && holds(below.type.dtype, source.dtype))
            return below.inputs[0];
        }
        break;
      case Prim::concat:
        if (node.inputs.size() == 1) return in(0);
        break;
      case Prim::add:
        if (is(in(0), 0)) return in(1);
        if (is(in(1), 0)) return in(0);
        break;
      case Prim::sub:
        if (is(in(1), 0)) return in(0);
        break;
      case Prim::mul:
        if (is(in(0), 1)) return in(1);
        if (is(in(1), 1)) return in(0);
        break;
      case Prim::div:
        if (is(in(1), 1)) return in(0);
        break;
      case Prim::sum:
      case Prim::prod:
      case Prim::reduce_max:
      case Prim::reduce_min:
        if (node.attrs.ints("axes").empty()) return in(0);
        break;
      default:
        break;
    }
    return std::nullopt;
  }

  static bool whole_pad(const GraphNode& node) {
    for (const char* side : {"low", "high"})
      for (int64_t n : node.attrs.ints(side))
        if (n != 0) return false;
    return true;
  }

  // Merges reshape of reshape, broadcast of broadcast, and permute of permute.
  void merge_movement(GraphNode& node) {
    while (is_movement(node.op->prim) && node.inputs.size() == 1) {
      const GraphNode& below = result_[node.inputs[0]];
      if (below.op != node.op) return;
      if (node.op->prim == Prim::reshape || node.op->prim == Prim::broadcast) {
        node.inputs[0] = below.inputs[0];
      } else if (node.op->prim == Prim::permute) {
        Ints axes = node.attrs.ints("axes");
        for (int64_t& axis : axes) axis = below.attrs.ints("axes")[static_cast<size_t>(axis)];
        node.attrs.set("axes", axes);
        node.inputs[0] = below.inputs[0];
      } else {
        return;
      }
    }
  }

  // A piece of a sum of pads: a value from `start` to `end` of an axis, with zeros around it.
  struct Piece {
    int value, axis;
    int64_t start, end;
  };
  std::optional<Piece> piece(int id) const {
    const GraphNode& node = result_[id];
    if (node.op->prim != Prim::pad || node.attrs.number("value") != 0 || !node.after.empty()) return {};
    const Ints &low = node.attrs.ints("low"), &high = node.attrs.ints("high");
    std::optional<Piece> found;
    for (size_t i = 0; i < low.size(); ++i) {
      if (low[i] == 0 && high[i] == 0) continue;
      const int axis = static_cast<int>(i);
      if (found) return {};  // around several axes
      found = {node.inputs[0], axis, low[i], node.type.shape[axis] - high[i]};
    }
    return found;
  }

  // Adds a piece. A concatenation that was made before is split into its pieces again.
  void add_pieces(const Piece& whole, std::vector<Piece>& pieces) const {
    const GraphNode& node = result_[whole.value];
    if (node.op->prim != Prim::concat || !node.after.empty() || node.attrs.integer("axis") != whole.axis)
      return pieces.push_back(whole);
    int64_t start = whole.start;
    for (const int input : node.inputs) {
      const int64_t end = start + result_[input].type.shape[whole.axis];
      pieces.push_back({input, whole.axis, start, end});
      start = end;
    }
  }

  // Collects the pads that a value is the sum of. Returns false if it adds anything else.
  bool gather_pads(int id, const TensorType& type, std::vector<Piece>& pieces) const {
    constexpr size_t most = 64;
    const GraphNode& node = result_[id];
    if (node.type != type || pieces.size() >= most) return false;
    if (const auto one = piece(id)) return add_pieces(*one, pieces), true;
    return node.op->prim == Prim::add && node.after.empty() && gather_pads(node.inputs[0], type, pieces) &&
           gather_pads(node.inputs[1], type, pieces);
  }

  // The gradient of split(): a sum of pads of neighbouring pieces is one concatenation, with zeros around it
  // where the pieces do not fill the axis.
  std::optional<int> concat_of_pads(const GraphNode& node) {
    std::vector<Piece> pieces;
    if (node.op->prim != Prim::add || !node.after.empty() ||
        !gather_pads(node.inputs[0], node.type, pieces) || !gather_pads(node.inputs[1], node.type, pieces))
      return {};
    std::ranges::sort(pieces, {}, &Piece::start);
    for (size_t i = 1; i < pieces.size(); ++i)
      if (pieces[i].axis != pieces[0].axis || pieces[i].start != pieces[i - 1].end) return {};
    const int axis = pieces[0].axis;
    GraphNode joined = node;
    joined.op = &find_primitive(Prim::concat);
    joined.attrs = {{"axis", int64_t{axis}}};
    joined.inputs.clear();
    for (const Piece& one : pieces) joined.inputs.push_back(one.value);
    const int64_t start = pieces.front().start, end = pieces.back().end, extent = node.type.shape[axis];
    joined.type.shape = node.type.shape.with(axis, end - start);
    const int id = place(std::move(joined));
    if (start == 0 && end == extent) return id;
    GraphNode padded = node;
    padded.op = &find_primitive(Prim::pad);
    Ints low(static_cast<size_t>(node.type.shape.rank()), 0), high = low;
    low[static_cast<size_t>(axis)] = start;
    high[static_cast<size_t>(axis)] = extent - end;
    padded.attrs = {{"low", low}, {"high", high}, {"value", 0.0}};
    padded.inputs = {id};
    return place(std::move(padded));
  }

  const Graph& source_;
  Graph result_;
  std::unordered_multimap<uint64_t, int> seen_;
};

}  // namespace

Graph simplify(const Graph& graph) { return Simplifier(graph).run(); }

}  // namespace athanor
