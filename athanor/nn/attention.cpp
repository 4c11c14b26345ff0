#include "athanor/nn/attention.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/rotary.h"

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
      kv_heads_(options.kv_heads == 0 ? heads : options.kv_heads),
      options_(options) {
  if (heads < 1 || dimensions % heads != 0)
    throw Error(ErrorCode::value, fmt::format("attention of {} dimensions with {} heads", dimensions, heads),
                {}, "Dimensions must divide by the heads");
  if (kv_heads_ < 1 || heads % kv_heads_ != 0)
    throw Error(ErrorCode::value, fmt::format("{} heads of queries and {} of keys", heads, kv_heads_), {},
                "kv_heads must divide the heads");
  if (options.window < 0 || (options.rotary && dimensions / heads % 2 != 0))
    throw Error(ErrorCode::value,
                fmt::format("attention with a window of {}, and heads of {} elements{}", options.window,
                            dimensions / heads, options.rotary ? " to be turned in pairs" : ""),
                {}, "A window is at least 0 (all); rotary takes heads of an even size");
  const int64_t rows = dimensions + 2 * kv_heads_ * (dimensions / heads);
  in_proj_weight = add_parameter("in_proj_weight", init::xavier_uniform({rows, dimensions}));
  if (!options.bias) return;
  in_proj_bias = add_parameter("in_proj_bias", init::zeros({rows}));
  out_proj.bias.assign(init::zeros({dimensions}));
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  if (x.rank() != 3 || x.size(2) != dimensions_)
    throw Error(ErrorCode::shape, fmt::format("{} was given {}", describe(), to_string(x.type())), {},
                fmt::format("It takes [N, T, {}]", dimensions_));
  const int64_t n = x.size(0), t = x.size(1);
  const Tensor projected =
      with_adapter(linear(x, in_proj_weight, options_.bias ? in_proj_bias.value() : Tensor()), x);
  const int64_t each = dimensions_ / heads_, keys = kv_heads_ * each;
  std::vector<Tensor> qkv;
  for (const Tensor& part : split(projected, {dimensions_, keys, keys}, 2))
    qkv.push_back(transpose(reshape(part, {n, t, part.size(2) / each, each}), 1, 2));
  if (options_.rotary)
    for (size_t i = 0; i < 2; ++i) qkv[i] = rotary_embedding(qkv[i], {}, {.base = options_.rotary_base});
  const Tensor mixed = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {},
                                                    {.causal = options_.causal, .window = options_.window});
  return out_proj(reshape(transpose(mixed, 1, 2), {n, t, dimensions_}));
}

std::string MultiheadAttention::describe() const {
  std::string text = fmt::format("MultiheadAttention({}, {} heads", dimensions_, heads_);
  if (kv_heads_ != heads_) text += fmt::format(", {} of keys", kv_heads_);
  if (options_.causal) text += ", causal";
  if (options_.window > 0) text += fmt::format(", window {}", options_.window);
  return text + (options_.rotary ? ", rotary)" : ")");
}

}  // namespace athanor::nn
