#include "athanor/compile/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace athanor {

std::vector<int> Graph::use_counts() const {
  std::vector<int> uses(nodes.size());
  for (const auto& node : nodes)
    for (int input : node.inputs) ++uses[static_cast<size_t>(input)];
  for (int output : outputs) ++uses[static_cast<size_t>(output)];
  return uses;
}

std::optional<double> Graph::number(int id) const {
  while ((*this)[id].op->prim == Prim::broadcast || (*this)[id].op->prim == Prim::reshape)
    id = (*this)[id].inputs[0];
  if ((*this)[id].op->prim != Prim::constant) return std::nullopt;
  return (*this)[id].attrs.number("value");
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    text += fmt::format("%{} = {} {} (%{})", i, node.op->name, to_string(node.type),
                        fmt::join(node.inputs, ", %"));
    if (!node.attrs.entries().empty()) text += " {" + to_string(node.attrs) + "}";
    if (node.layout.block != 0) text += " " + to_string(node.layout);
    if (!node.after.empty()) text += fmt::format(" after %{}", fmt::join(node.after, ", %"));
    text += "\n";
  }
  return text + fmt::format("-> %{}\n", fmt::join(graph.outputs, ", %"));
}

Graph remove_dead(const Graph& graph) {
  std::vector<bool> live(graph.nodes.size());
  for (int output : graph.outputs) live[static_cast<size_t>(output)] = true;
  for (int input : graph.inputs) live[static_cast<size_t>(input)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (live[i])
      for (int input : graph.nodes[i].inputs) live[static_cast<size_t>(input)] = true;
  Graph result;
  std::vector<int> renamed(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live[i]) continue;
    GraphNode node = graph.nodes[i];
    node.rename([&](int id) { return renamed[static_cast<size_t>(id)]; });
    std::erase(node.after, -1);  // nodes that were removed are not waited for
    renamed[i] = result.add(std::move(node));
  }
  for (int input : graph.inputs) result.inputs.push_back(renamed[static_cast<size_t>(input)]);
  for (int output : graph.outputs) result.outputs.push_back(renamed[static_cast<size_t>(output)]);
  return result;
}

}  // namespace athanor
