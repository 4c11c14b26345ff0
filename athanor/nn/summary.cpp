// The module tree as a table.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/nn/module.h"

namespace athanor::nn {
namespace {

struct Row {
  std::string name, layer;
  int64_t parameters;
};

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

void collect(const Module& module, const std::string& name, int depth, std::vector<Row>& rows) {
  rows.push_back(
      {std::string(static_cast<size_t>(2 * depth), ' ') + name, module.describe(), module.parameter_count()});
  for (const auto& [child_name, child] : module.children()) collect(*child, child_name, depth + 1, rows);
}

}  // namespace

std::string to_string(const Module& module) {
  std::vector<Row> rows;
  collect(module, "model", 0, rows);
  size_t name_width = 4, layer_width = 5;
  for (const auto& row : rows) {
    name_width = std::max(name_width, row.name.size());
    layer_width = std::max(layer_width, row.layer.size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<{}}  {:>12}\n", "name", name_width, "layer", layer_width, "parameters");
  for (const auto& row : rows)
    text += fmt::format("{:<{}}  {:<{}}  {:>12}\n", row.name, name_width, row.layer, layer_width,
                        row.parameters > 0 ? grouped(row.parameters) : "");
  uint64_t bytes = 0, buffer_bytes = 0;
  for (const auto& parameter : module.parameters()) bytes += parameter.value().type().bytes();
  for (const auto& [name, buffer] : module.named_buffers()) buffer_bytes += buffer.value().type().bytes();
  return text + fmt::format("{} parameters ({}), buffers {}\n", grouped(module.parameter_count()),
                            format_bytes(bytes), format_bytes(buffer_bytes));
}

}  // namespace athanor::nn
