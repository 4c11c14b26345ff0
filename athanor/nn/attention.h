// Multi-head attention.
#pragma once
#include "athanor/nn/linear.h"

namespace athanor::nn {

/// Attention of q, k and v, each [N, T, D], in `heads` heads of D / heads each: [N, T, D].
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, bool causal);

struct AttentionLayerOptions {
  bool bias = true;
  bool causal = false;  // a position sees those before it and itself
};

/// Self-attention of x [N, T, D] with `heads` heads of D / heads each: [N, T, D]. Vaswani et al. (2017).
///
/// Parameters have the names and layout of PyTorch's MultiheadAttention: in_proj_weight [3 D, D] (queries,
/// keys, values; Xavier uniform), in_proj_bias [3 D], out_proj.weight [D, D], out_proj.bias [D].
class MultiheadAttention : public LoraLayer {
 public:
  /// Throws Error(value) when heads does not divide dimensions.
  MultiheadAttention(int64_t dimensions, int64_t heads, const AttentionLayerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter in_proj_weight, in_proj_bias;
  Linear& out_proj;

 protected:
  const Parameter& adapted_weight() const override { return in_proj_weight; }

 private:
  int64_t dimensions_, heads_;
  AttentionLayerOptions options_;
};

}  // namespace athanor::nn
