#include "athanor/nn/lora.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"

namespace athanor::nn {
namespace {

/// Calls visit(path, layer) for all layers that can have adapters.
template <class Visit>
void visit_lora_layers(Module& module, const std::string& path, const Visit& visit) {
  if (auto* layer = dynamic_cast<LoraLayer*>(&module)) visit(path, *layer);
  for (const auto& [name, child] : module.children()) visit_lora_layers(*child, path + name + ".", visit);
}

}  // namespace

void LoraLayer::add_adapter(const LoraOptions& options) {
  const Shape& weight = adapted_weight().shape();
  const int64_t inputs = weight[transposed() ? 0 : 1], outputs = weight[transposed() ? 1 : 0];
  if (a_.defined()) throw Error(ErrorCode::usage, fmt::format("{} has an adapter already", describe()));
  if (options.rank < 1 || options.rank > std::min(inputs, outputs))
    throw Error(ErrorCode::value, fmt::format("an adapter of rank {} for {}", options.rank, describe()), {},
                fmt::format("Give a rank from 1 to {}", std::min(inputs, outputs)));
  a_ = add_parameter("lora_A", init::layer_weight({options.rank, inputs}));
  b_ = add_parameter("lora_B", init::zeros({outputs, options.rank}));
  const auto rank = static_cast<double>(options.rank);
  scale_ = (options.alpha > 0 ? options.alpha : rank) / rank;
}

void LoraLayer::merge_adapter() {
  if (!a_.defined()) return;
  const NoGrad no_history;
  const Tensor change = matmul(b_, a_) * scale_;
  const Parameter& weight = adapted_weight();
  weight.assign(weight + (transposed() ? transpose(change) : change));
  remove_parameter("lora_A");
  remove_parameter("lora_B");
  a_ = b_ = Parameter();
}

Tensor LoraLayer::with_adapter(const Tensor& y, const Tensor& x) const {
  if (!a_.defined()) return y;
  return y + linear(linear(x, a_), b_) * scale_;
}

int64_t add_lora(Module& model, const LoraOptions& options) {
  int64_t count = 0;
  visit_lora_layers(model, "", [&](const std::string& path, LoraLayer& layer) {
    if (is_of_classes(path)) return;
    layer.add_adapter(options);
    ++count;
  });
  return count;
}

void merge_lora(Module& model) {
  visit_lora_layers(model, "", [](const std::string&, LoraLayer& layer) { layer.merge_adapter(); });
}

bool is_lora(const std::string& parameter) {
  const std::string name = parameter.substr(parameter.rfind('.') + 1);
  return name == "lora_A" || name == "lora_B";
}

bool is_of_classes(const std::string& parameter) {
  return parameter.starts_with("fc.") || parameter.starts_with("AuxLogits.fc.") ||
         parameter.starts_with("heads.head.");
}

}  // namespace athanor::nn
