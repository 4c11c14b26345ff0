#include "athanor/nn/linear.h"

#include <fmt/format.h>

#include "athanor/nn/init.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"

namespace athanor::nn {

Linear::Linear(int64_t inputs, int64_t outputs, bool with_bias) {
  const Shape shape{outputs, inputs};
  weight = add_parameter("weight", init::layer_weight(shape));
  if (with_bias) bias = add_parameter("bias", init::layer_bias({outputs}, shape));
}

Tensor Linear::forward(const Tensor& x) {
  return with_adapter(linear(x, weight, bias.defined() ? bias.value() : Tensor()), x);
}

std::string Linear::describe() const {
  return fmt::format("Linear({} -> {}{})", weight.shape()[1], weight.shape()[0],
                     bias.defined() ? "" : ", no bias");
}

SwiGLU::SwiGLU(int64_t dimensions, int64_t hidden, bool with_bias)
    : gate_proj(add("gate_proj", Linear(dimensions, hidden, with_bias))),
      up_proj(add("up_proj", Linear(dimensions, hidden, with_bias))),
      down_proj(add("down_proj", Linear(hidden, dimensions, with_bias))) {}

Tensor SwiGLU::forward(const Tensor& x) { return down_proj(swiglu(gate_proj(x), up_proj(x))); }

std::string SwiGLU::describe() const {
  const Shape& w = gate_proj.weight.shape();
  return fmt::format("SwiGLU({} -> {} -> {})", w[1], w[0], w[1]);
}

Embedding::Embedding(int64_t entries, int64_t dimensions) {
  weight = add_parameter("weight", init::normal({entries, dimensions}));
}

Tensor Embedding::forward(const Tensor& labels) { return embedding(weight, labels); }

std::string Embedding::describe() const {
  return fmt::format("Embedding({} x {})", weight.shape()[0], weight.shape()[1]);
}

}  // namespace athanor::nn
