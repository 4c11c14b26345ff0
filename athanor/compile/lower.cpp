// Decomposition: ops without a kernel on their device become other ops, down to the primitives.
#include <unordered_map>

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/compile/graph.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

class Lowering {
 public:
  Lowering(const Graph& source, const CompileOptions& options) : source_(source), options_(options) {}

  Graph run() {
    std::vector<int> renamed;
    for (const auto& node : source_.nodes) {
      std::vector<int> inputs;
      for (int input : node.inputs) inputs.push_back(renamed[static_cast<size_t>(input)]);
      after_.clear();
      for (int earlier : node.after) after_.push_back(renamed[static_cast<size_t>(earlier)]);
      renamed.push_back(lower(node, inputs, 0));
    }
    for (int input : source_.inputs) result_.inputs.push_back(renamed[static_cast<size_t>(input)]);
    for (int output : source_.outputs) result_.outputs.push_back(renamed[static_cast<size_t>(output)]);
    return std::move(result_);
  }

 private:
  // Adds `node`, with nodes of the result as inputs, as ops that have kernels. Returns its index there.
  int lower(const GraphNode& node, const std::vector<int>& inputs, int depth) {
    std::vector<TensorType> types;
    for (int input : inputs) types.push_back(result_[input].type);
    Backend& backend = backend_of(node.type.device);
    const bool dedicated = options_.enabled(Pass::dedicated) && node.op->prim == Prim::none &&
                           backend.has_kernel(*node.op, types, node.type, node.attrs);
    const bool on_host = !dedicated && node.op->prim == Prim::none && !node.op->decompose &&
                         node.op->reference && options_.allows_on_host(node.op->name);
    if (on_host && node.type.device != Device{}) return move_to_host(node, inputs);
    if (node.op->prim != Prim::none || dedicated || on_host) {
      GraphNode copy = node;
      copy.inputs = inputs;
      copy.after = after_;
      return result_.add(std::move(copy));
    }
    if (!node.op->decompose || depth > 64)
      throw Error(
          ErrorCode::device,
          fmt::format("{} has neither a kernel on {} nor a decomposition into primitives", node.op->name,
                      to_string(node.type.device)),
          to_string(node.where),
          "Give the op a decomposition: docs/adding-an-op.md" +
              (node.op->reference
                   ? fmt::format("; or let it run on the host, slowly: ATHANOR_HOST_OPS={}", node.op->name)
                   : std::string()));
    return decompose(node, inputs, depth);
  }

  // Copies the inputs to the host, which computes the node, and the result back.
  int move_to_host(const GraphNode& node, const std::vector<int>& inputs) {
    GraphNode moved = node;
    moved.inputs.clear();
    moved.after = after_;
    moved.type.device = Device{};
    moved.off_device = true;
    for (const int input : inputs) {
      const GraphNode& given = result_[input];
      const bool there = given.op->prim == Prim::to && result_[given.inputs[0]].off_device;
      moved.inputs.push_back(there ? given.inputs[0] : copy_to(Device{}, input, node));
    }
    return copy_to(node.type.device, result_.add(std::move(moved)), node);
  }

  // The value on the device, for `reader`.
  int copy_to(Device device, int value, const GraphNode& reader) {
    static const Op& to = find_primitive(Prim::to);
    TensorType type = result_[value].type;
    if (type.device == device) return value;
    type.device = device;
    return result_.add({.op = &to,
                        .attrs = {{"device", device}},
                        .inputs = {value},
                        .type = type,
                        .layout = {},
                        .epilogue = {},
                        .where = reader.where,
                        .part = reader.part,
                        .after = after_,
                        .segment = reader.segment});
  }

  int decompose(const GraphNode& node, const std::vector<int>& inputs, int depth) {
    const SourceScope line(node.where);
    const PartScope part(node.part);
    const Autocast precision(node.precision);
    const SegmentScope segment(Segment{node.segment.number});
    const NoGrad off;
    std::vector<Tensor> placeholders;
    std::unordered_map<const Node*, int> known;
    for (int input : inputs) {
      placeholders.push_back(Tensor::placeholder(result_[input].type));
      known[placeholders.back().node().get()] = input;
    }
    const Tensor meaning = node.op->decompose(placeholders, node.attrs);
    if (meaning.type() != node.type)
      throw Error(ErrorCode::internal, fmt::format("{} decomposes to {}, not {}", node.op->name,
                                                   to_string(meaning.type()), to_string(node.type)));
    const size_t before = result_.nodes.size();
    const int id = import(*meaning.node(), known, depth);
    if (static_cast<size_t>(id) >= before) result_[id].segment = node.segment;
    return id;
  }

  // The nodes of a decomposition are few and shallow, so plain recursion is fine.
  int import(const Node& node, std::unordered_map<const Node*, int>& known, int depth) {
    if (auto found = known.find(&node); found != known.end()) return found->second;
    std::vector<int> inputs;
    for (const auto& input : node.inputs) inputs.push_back(import(*input, known, depth));
    GraphNode copy{.op = node.op,
                   .attrs = node.attrs,
                   .inputs = {},
                   .type = node.type,
                   .layout = {},
                   .epilogue = {},
                   .where = node.where,
                   .part = node.part,
                   .precision = node.precision,
                   .segment = node.segment};
    const int id = lower(copy, inputs, depth + 1);
    known[&node] = id;
    return id;
  }

  const Graph& source_;
  const CompileOptions& options_;
  Graph result_;
  std::vector<int> after_;  // `after` of the node that is being lowered; all nodes that replace it get it
};

}  // namespace

Graph lower(const Graph& graph, const CompileOptions& options) { return Lowering(graph, options).run(); }

}  // namespace athanor
