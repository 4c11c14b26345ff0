// Dense layers and look-up tables.
#pragma once
#include "athanor/nn/lora.h"

namespace athanor::nn {

/// x [..., I] -> x weight^T + bias [..., O]. weight [O, I], bias [O]: uniform in ± 1 / sqrt(I).
class Linear : public LoraLayer {
 public:
  Linear(int64_t inputs, int64_t outputs, bool with_bias = true);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 protected:
  const Parameter& adapted_weight() const override { return weight; }
};

/// A feed-forward layer with a gate: x [..., D] -> down_proj(silu(gate_proj x) * up_proj x) [..., D], with
/// `hidden` elements between. Names as in LLaMA: gate_proj, up_proj, down_proj; no biases unless asked for.
class SwiGLU : public Module {
 public:
  SwiGLU(int64_t dimensions, int64_t hidden, bool with_bias = false);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Linear &gate_proj, &up_proj, &down_proj;
};

/// Integers [...] in [0, V) -> rows of weight [V, D]: [..., D]. weight: normal.
class Embedding : public Module {
 public:
  Embedding(int64_t entries, int64_t dimensions);
  Tensor forward(const Tensor& labels) override;
  std::string describe() const override;

  Parameter weight;
};

}  // namespace athanor::nn
