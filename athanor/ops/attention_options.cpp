// scaled_dot_product_attention(): turns masks, windows, lengths and heads that share keys into what the op
// takes (attention.cpp).
#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

// The keys that each query may see by the window and the lengths, as bool that broadcasts to the scores. {}:
// all.
Tensor visible_keys(const Tensor& q, int64_t keys, const AttentionOptions& options) {
  Tensor visible;
  if (options.window < 0)
    throw Error(ErrorCode::value, fmt::format("a window of {}", options.window), {}, "0 means all keys");
  if (options.window > 0) {
    const int64_t t = q.size(-2);
    const Tensor row = iota({t, 1}, 0, q.device()), column = iota({1, keys}, 1, q.device());
    visible = less(abs(row + (keys - t) - column), options.window);
  }
  if (options.lengths.defined()) {
    const Tensor& lengths = options.lengths;
    if (!is_int(lengths.dtype()) || q.rank() < 3 || lengths.shape() != Shape{q.size(0)})
      throw Error(ErrorCode::shape,
                  fmt::format("the lengths are {} for q {}", to_string(lengths.type()), to_string(q.shape())),
                  {}, "They are integers [N], for q [N, ..., T, D]");
    const Ints ones(static_cast<size_t>(q.rank() - 1), 1);
    Ints first = ones;
    first.insert(first.begin(), q.size(0));
    Shape last(Ints(static_cast<size_t>(q.rank()), 1));
    const Tensor column = iota(last.with(-1, keys), q.rank() - 1, q.device());
    const Tensor whole = less(column, reshape(cast(lengths, DType::i64), first));
    visible = visible.defined() ? visible & whole : whole;
  }
  return visible;
}

// The number of heads of q that share a head of k and v.
int64_t heads_per_key(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank() || k.size(-3) == q.size(-3)) return 1;
  const int64_t heads = q.size(-3), key_heads = k.size(-3);
  if (key_heads < 1 || heads % key_heads != 0)
    throw Error(ErrorCode::shape, fmt::format("q has {} heads (axis -3), k has {}", heads, key_heads), {},
                "Those of k and v are as many, or divide them");
  return heads / key_heads;
}

// [..., H, T, D] as [..., H / groups, groups, T, D]; for_groups repeats [..., H / groups, S, D] to fit that.
Tensor in_groups(const Tensor& x, int64_t groups) {
  const Shape split = x.shape().with(-3, x.size(-3) / groups);
  return reshape(x, split.insert(split.rank() - 2, groups).to_ints());
}
Tensor for_groups(const Tensor& x, int64_t groups) {
  const Tensor one = unsqueeze(x, -3);
  return broadcast_to(one, one.shape().with(-3, groups));
}

// The mask to add: for bool, 0 where it is true and -infinity elsewhere.
Tensor added_mask(const Tensor& mask, const Tensor& q) {
  return mask.dtype() == DType::b8 ? where(mask, constant(0, q.dtype(), q.device()), -infinity)
                                   : cast(mask, q.dtype());
}

}  // namespace

Tensor scaled_dot_product_attention(Operand q, Operand k, Operand v, const Tensor& mask,
                                    const AttentionOptions& options) {
  static const Op& op = find_op("scaled_dot_product_attention");
  return in_call(
      "scaled_dot_product_attention",
      [&] {
        Tensor query = as_tensor(q), key = as_tensor(k), value = as_tensor(v);
        if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2)
          throw Error(ErrorCode::shape, "takes q [..., T, D], k [..., S, D] and v [..., S, E]");
        const double scale =
            options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
        const Tensor visible = visible_keys(query, key.size(-2), options);
        Tensor added = mask.defined() ? added_mask(mask, query) : Tensor();
        if (visible.defined())
          added = added.defined() ? where(visible, added, -infinity) : added_mask(visible, query);
        if (added.defined()) added = broadcast_to(added, query.shape().with(-1, key.size(-2)));

        const Shape given = query.shape();
        const int64_t groups = heads_per_key(query, key, value);
        if (groups > 1) {
          query = in_groups(query, groups), key = for_groups(key, groups), value = for_groups(value, groups);
          if (added.defined()) added = in_groups(added, groups);
        }
        std::vector<Operand> inputs = {query, key, value};
        if (added.defined()) inputs.emplace_back(added);
        const Tensor y = apply(op, inputs, {{"causal", options.causal}, {"scale", scale}});
        return groups > 1 ? reshape(y, given.with(-1, value.size(-1)).to_ints()) : y;
      },
      q, k, v);
}

}  // namespace athanor
