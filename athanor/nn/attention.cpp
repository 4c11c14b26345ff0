#include "athanor/nn/attention.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"

namespace athanor::nn {

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, bool causal) {
  const int64_t n = q.size(0), d = q.size(2);
  const auto by_head = [&](const Tensor& x) {
    return transpose(reshape(x, {n, x.size(1), heads, d / heads}), 1, 2);
  };
  const Tensor mixed =
      scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), {}, {.causal = causal});
  return reshape(transpose(mixed, 1, 2), {n, q.size(1), d});
}

MultiheadAttention::MultiheadAttention(int64_t dimensions, int64_t heads,
                                       const AttentionLayerOptions& options)
    : out_proj(add("out_proj", Linear(dimensions, dimensions, options.bias))),
      dimensions_(dimensions),
      heads_(heads),
      options_(options) {
  if (heads < 1 || dimensions % heads != 0)
    throw Error(ErrorCode::value, fmt::format("attention of {} dimensions with {} heads", dimensions, heads),
                {}, "Dimensions must divide by the heads");
  in_proj_weight = add_parameter("in_proj_weight", init::xavier_uniform({3 * dimensions, dimensions}));
  if (!options.bias) return;
  in_proj_bias = add_parameter("in_proj_bias", init::zeros({3 * dimensions}));
  out_proj.bias.assign(init::zeros({dimensions}));
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  if (x.rank() != 3 || x.size(2) != dimensions_)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [N, T, {}]", dimensions_));
  const Tensor projected =
      with_adapter(linear(x, in_proj_weight, options_.bias ? in_proj_bias.value() : Tensor()), x);
  const std::vector<Tensor> qkv = chunk(projected, 3, 2);
  return out_proj(attend(qkv[0], qkv[1], qkv[2], heads_, options_.causal));
}

std::string MultiheadAttention::describe() const {
  return fmt::format("MultiheadAttention({}, {} heads{})", dimensions_, heads_,
                     options_.causal ? ", causal" : "");
}

}  // namespace athanor::nn
