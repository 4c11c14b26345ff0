// Multi-head attention.
#pragma once
#include "athanor/nn/linear.h"

namespace athanor::nn {

/// Attention of q, k and v, each [N, T, D], in `heads` heads of D / heads each: [N, T, D].
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, bool causal);

struct AttentionLayerOptions {
  bool bias = true;
  bool causal = false;   // a position attends to itself and those before it
  int64_t kv_heads = 0;  // heads of keys and values; 0: as many as of queries
  int64_t window = 0;    // a position attends to positions less than this far away; 0: to all
  bool rotary = false;   // whether queries and keys are rotated by their positions, see rotary_embedding
  double rotary_base = 10000;
};

/// Self-attention of x [N, T, D] with `heads` heads of D / heads each: [N, T, D]. Vaswani et al. (2017).
///
/// Parameters have the names and layout of PyTorch's MultiheadAttention: in_proj_weight [3 D, D] (queries,
/// keys, values; Xavier uniform), in_proj_bias [3 D], out_proj.weight [D, D], out_proj.bias [D]. With
/// kv_heads, in_proj has D rows for queries, then kv_heads D / heads for keys and as many for values.
class MultiheadAttention : public LoraLayer {
 public:
  /// Throws Error(value) when heads does not divide dimensions, kv_heads not heads, or with rotary D / heads
  /// is odd.
  MultiheadAttention(int64_t dimensions, int64_t heads, const AttentionLayerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter in_proj_weight, in_proj_bias;
  Linear& out_proj;

 protected:
  const Parameter& adapted_weight() const override { return in_proj_weight; }

 private:
  int64_t dimensions_, heads_, kv_heads_;
  AttentionLayerOptions options_;
};

}  // namespace athanor::nn
