// Scaled dot-product attention.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/loss.h"

namespace athanor {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Shape leading(const Shape& shape) { return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2))); }

TensorType infer(std::span<const TensorType> in, const Attrs&) {
  if (in.size() < 3 || in.size() > 4) throw Error(ErrorCode::usage, "takes q, k, v and perhaps a mask");
  for (const auto& type : in.first(3)) {
    check_dtype(type, Accept::floats);
    if (type.dtype != in[0].dtype)
      throw Error(ErrorCode::dtype, "takes q, k and v of one dtype", {}, "Cast them first");
    if (type.shape.rank() < 2 || leading(type.shape) != leading(in[0].shape))
      throw Error(ErrorCode::shape,
                  "takes q [..., T, D], k [..., S, D] and v [..., S, E] with equal leading axes");
  }
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  if (q[-1] != k[-1])
    throw Error(ErrorCode::shape, fmt::format("queries have {} features, keys {}", q[-1], k[-1]));
  if (k[-2] != v[-2]) throw Error(ErrorCode::shape, fmt::format("{} keys for {} values", k[-2], v[-2]));
  if (in.size() == 4 && (in[3].shape != q.with(-1, k[-2]) || in[3].dtype != in[0].dtype))
    throw Error(ErrorCode::shape, fmt::format("takes a mask {} of q's dtype", to_string(q.with(-1, k[-2]))),
                {}, "scaled_dot_product_attention() broadcasts masks, and takes bool");
  return {in[0].dtype, q.with(-1, v[-1]), {}};
}

Tensor decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  Tensor scores = widened(matmul(q, transpose(k))) * attrs.number("scale");
  if (in.size() == 4) scores = scores + widened(in[3]);
  if (attrs.flag("causal")) {
    const int64_t t = scores.size(-2), s = scores.size(-1);
    const Tensor row = iota({t, 1}, 0, q.device()), column = iota({1, s}, 1, q.device());
    scores = where(less_equal(column, row + (s - t)), scores, -infinity);
  }
  return matmul(cast(softmax(scores, -1), v.dtype()), v);
}

RefArray reference(std::span<const RefArray> in, const Attrs& attrs) {
  const RefArray &q = in[0], &k = in[1], &v = in[2];
  const int64_t t = q.shape[-2], d = q.shape[-1], s = k.shape[-2], e = v.shape[-1];
  RefArray result(q.shape.with(-1, e));
  for (int64_t row = 0; row < leading(q.shape).size() * t; ++row) {
    const int64_t batch = row / t, i = row % t;
    std::vector<double> weights(static_cast<size_t>(s));
    double total = 0;
    for (int64_t j = 0; j < s; ++j) {
      double score = 0;
      for (int64_t c = 0; c < d; ++c) score += q[row * d + c] * k[(batch * s + j) * d + c];
      score *= attrs.number("scale");
      if (in.size() == 4) score += in[3][row * s + j];
      if (attrs.flag("causal") && j > i + s - t) score = -infinity;
      total += weights[static_cast<size_t>(j)] = std::exp(score);
    }
    for (int64_t j = 0; j < s; ++j)
      for (int64_t c = 0; c < e; ++c)
        result[row * e + c] += weights[static_cast<size_t>(j)] / total * v[(batch * s + j) * e + c];
  }
  return result;
}

Attrs attributes(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }

}  // namespace

ATHANOR_OPS(attention) {
  define_op(
      {.name = "scaled_dot_product_attention",
       .doc = "softmax(q k^T * scale + mask) v: q [..., T, D], k [..., S, D], v [..., S, E] -> [..., T, E]",
       .arity = -1,
       .infer = infer,
       .decompose = decompose,
       .reference = reference,
       .cases = {{{{{5, 3}}, {{7, 3}}, {{7, 2}}}, attributes(false, 0.6)},
                 {{{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}}, attributes(true, 0.5)},
                 {{{{2, 1, 3}}, {{2, 17, 3}}, {{2, 17, 3}}, {{2, 1, 17}}}, attributes(false, 1.0)},
                 {{{{0, 5, 3}}, {{0, 7, 3}}, {{0, 7, 3}}}, attributes(true, 1.0)}},
       .flops =
           [](std::span<const TensorType> in, const TensorType& out, const Attrs&) {
             const int64_t scores = in[0].shape.with(-1, in[1].shape[-2]).size();
             return 2 * scores * (in[0].shape[-1] + out.shape[-1]);
           },
       .tolerance = 8});
}

Tensor scaled_dot_product_attention(Operand q, Operand k, Operand v, const Tensor& mask,
                                    const AttentionOptions& options) {
  static const Op& op = find_op("scaled_dot_product_attention");
  return in_call(
      "scaled_dot_product_attention",
      [&] {
        const Tensor query = as_tensor(q), key = as_tensor(k);
        if (query.rank() < 2 || key.rank() < 2)
          throw Error(ErrorCode::shape, "takes q [..., T, D], k [..., S, D] and v [..., S, E]");
        const double scale =
            options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
        std::vector<Operand> inputs = {q, k, v};
        if (mask.defined()) {
          const Tensor added = mask.dtype() == DType::b8
                                   ? where(mask, constant(0, query.dtype(), query.device()), -infinity)
                                   : cast(mask, query.dtype());
          inputs.push_back(broadcast_to(added, query.shape().with(-1, key.size(-2))));
        }
        return apply(op, inputs, attributes(options.causal, scale));
      },
      q, k, v);
}

}  // namespace athanor
