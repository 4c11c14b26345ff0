// The op of scaled dot-product attention and its gradients. attention_options.cpp has the function.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

Shape leading(const Shape& shape) { return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2))); }
Shape without_last(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 1)));
}

void check_floats(std::span<const TensorType> in, size_t count) {
  if (in.size() < count || in.size() > count + 1)
    throw Error(ErrorCode::usage, fmt::format("takes {} tensors and perhaps a mask", count));
}

void check_queries(const TensorType& q, const TensorType& k) {
  for (const TensorType* type : {&q, &k}) {
    check_dtype(*type, Accept::floats);
    if (type->dtype != q.dtype)
      throw Error(ErrorCode::dtype, "takes q, k and v of one dtype", {}, "Cast them first");
    if (type->shape.rank() < 2 || leading(type->shape) != leading(q.shape))
      throw Error(ErrorCode::shape,
                  "takes q [..., T, D], k [..., S, D] and v [..., S, E] with equal leading axes");
  }
  if (q.shape[-1] != k.shape[-1])
    throw Error(ErrorCode::shape, fmt::format("queries have {} features, keys {}", q.shape[-1], k.shape[-1]));
}

void check_mask(std::span<const TensorType> in, size_t place, const TensorType& k) {
  if (in.size() > place &&
      (in[place].shape != in[0].shape.with(-1, k.shape[-2]) || in[place].dtype != in[0].dtype))
    throw Error(ErrorCode::shape,
                fmt::format("takes a mask {} of q's dtype", to_string(in[0].shape.with(-1, k.shape[-2]))), {},
                "scaled_dot_product_attention() broadcasts masks, and takes bool");
}

/// Checks a tensor with one value for each query: [..., T].
void check_rows(const TensorType& q, const TensorType& rows) {
  check_dtype(rows, Accept::floats);
  if (rows.shape != without_last(q.shape))
    throw Error(ErrorCode::shape, fmt::format("takes a value for each query, {}, not {}",
                                              to_string(without_last(q.shape)), to_string(rows.shape)));
}

TensorType attention_infer(std::span<const TensorType> in, const Attrs&) {
  check_floats(in, 3);
  check_queries(in[0], in[1]);
  check_queries(in[0], {in[2].dtype, in[2].shape.with(-1, in[0].shape[-1]), {}});
  if (in[1].shape[-2] != in[2].shape[-2])
    throw Error(ErrorCode::shape, fmt::format("{} keys for {} values", in[1].shape[-2], in[2].shape[-2]));
  if (in[1].shape[-2] < 1 || in[1].shape[-1] < 1)
    throw Error(ErrorCode::shape,
                fmt::format("there are {} keys of {} features", in[1].shape[-2], in[1].shape[-1]), {},
                "Both are at least 1");
  check_mask(in, 3, in[1]);
  return {in[0].dtype, in[0].shape.with(-1, in[2].shape[-1]), {}};
}

/// q k^T * scale + mask, in the type in which sums are computed; `mask` may be undefined.
Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& mask, const Attrs& attrs) {
  Tensor scores = widened(matmul(q, transpose(k))) * attrs.number("scale");
  if (mask.defined()) scores = scores + widened(mask);
  if (attrs.flag("causal")) {
    const int64_t t = scores.size(-2), s = scores.size(-1);
    const Tensor row = iota({t, 1}, 0, q.device()), column = iota({1, s}, 1, q.device());
    scores = where(less_equal(column, row + (s - t)), scores, -infinity);
  }
  return scores;
}

Tensor mask_of(const std::vector<Tensor>& in, size_t place) {
  return in.size() > place ? in[place] : Tensor();
}

/// The softmax of each row of scores, as weights / sum. The forward pass and the log-sum-exp use it.
struct SoftmaxParts {
  Tensor largest, weights, sum;  // [..., T, 1], [..., T, S], [..., T, 1]
  explicit SoftmaxParts(const Tensor& scores)
      : largest(max(scores, Axes({-1}), true)),
        weights(exp(scores - largest)),
        sum(athanor::sum(weights, Axes({-1}), true)) {}
};

// The result is divided by the sums, not the weights, because it is usually smaller.
Tensor attention_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor& v = in[2];
  const SoftmaxParts parts(scores_of(in[0], in[1], mask_of(in, 3), attrs));
  return cast(widened(matmul(cast(parts.weights, v.dtype()), v)) / parts.sum, v.dtype());
}

// ---- Gradients ----
//
// They recompute the weights from each row's log-sum-exp: T. Dao and others, FlashAttention (2022).
//
// Let p = exp(scores - lse), g be the result's gradient, o the result, and delta = sum(g * o) of each row.
// Then the gradient of the scores is p * (g v^T - delta).

/// Inputs of the gradients with respect to q, k and v: q, k, v, g, lse, delta and perhaps the mask.
enum GradInput : uint8_t { in_q, in_k, in_v, in_g, in_lse, in_delta, in_mask };

TensorType infer_lse(std::span<const TensorType> in, const Attrs&) {
  check_floats(in, 2);
  check_queries(in[0], in[1]);
  check_mask(in, 2, in[1]);
  return {in[0].dtype == DType::f64 ? DType::f64 : DType::f32, without_last(in[0].shape), {}};
}

void check_grad(std::span<const TensorType> in) {
  check_floats(in, in_mask);
  const TensorType out = attention_infer(in.first(3), {});
  if (in[in_g].shape != out.shape || in[in_g].dtype != out.dtype)
    throw Error(ErrorCode::shape,
                fmt::format("takes a gradient {}, not {}", to_string(out), to_string(in[in_g])));
  check_rows(in[in_q], in[in_lse]);
  check_rows(in[in_q], in[in_delta]);
  check_mask(in, in_mask, in[in_k]);
}

Tensor weights_of(const Tensor& scores, const Tensor& lse) {
  return exp(scores - unsqueeze(widened(lse), -1));
}

/// The gradient of the scores: [..., T, S].
Tensor score_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor p = weights_of(scores_of(in[in_q], in[in_k], mask_of(in, in_mask), attrs), in[in_lse]);
  return p * (widened(matmul(in[in_g], transpose(in[in_v]))) - unsqueeze(widened(in[in_delta]), -1));
}

std::vector<Tensor> attention_grad(const GradArgs& a) {
  const bool masked = a.inputs.size() > 3;
  std::vector<Operand> rows{a.inputs[0], a.inputs[1]};
  if (masked) rows.emplace_back(a.inputs[3]);
  const Tensor lse = call("attention_lse", rows, a.attrs);
  const Tensor delta = sum(widened(a.grad) * widened(a.output), -1);
  const std::vector<Tensor> all = [&] {
    std::vector<Tensor> list{a.inputs[0], a.inputs[1], a.inputs[2], a.grad, lse, delta};
    if (masked) list.push_back(a.inputs[3]);
    return list;
  }();
  const std::vector<Operand> operands(all.begin(), all.end());
  std::vector<Tensor> grads(a.inputs.size());
  if (a.needed[0]) grads[0] = call("attention_grad_q", operands, a.attrs);
  if (a.needed[1]) grads[1] = call("attention_grad_k", operands, a.attrs);
  if (a.needed[2]) grads[2] = call("attention_grad_v", operands, a.attrs);
  if (masked && a.needed[3]) grads[3] = cast(score_grad(all, a.attrs), a.inputs[3].dtype());
  return grads;
}

/// The scores in plain loops: [rows of all batches, S].
struct RefScores {
  int64_t t, s, rows;
  std::vector<double> values;
  RefScores(const RefArray& q, const RefArray& k, const RefArray* mask, const Attrs& attrs)
      : t(q.shape[-2]), s(k.shape[-2]), rows(leading(q.shape).size() * t) {
    const int64_t d = q.shape[-1];
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t j = 0; j < s; ++j) {
        double score = 0;
        for (int64_t c = 0; c < d; ++c) score += q[row * d + c] * k[(row / t * s + j) * d + c];
        score *= attrs.number("scale");
        if (mask != nullptr) score += (*mask)[row * s + j];
        values.push_back(attrs.flag("causal") && j > row % t + s - t ? -infinity : score);
      }
  }
  double at(int64_t row, int64_t j) const { return values[static_cast<size_t>(row * s + j)]; }
};

const RefArray* ref_mask(std::span<const RefArray> in, size_t place) {
  return in.size() > place ? &in[place] : nullptr;
}

/// Of a row: relative to its largest score, so that no mask is too low.
struct RefSoftmax {
  double largest = -infinity, total = 0;
  RefSoftmax(const RefScores& scores, int64_t row) {
    for (int64_t j = 0; j < scores.s; ++j) largest = std::max(largest, scores.at(row, j));
    if (largest == -infinity) largest = 0;  // the query sees no key
    for (int64_t j = 0; j < scores.s; ++j) total += std::exp(scores.at(row, j) - largest);
  }
};

RefArray attention_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const RefScores scores(in[0], in[1], ref_mask(in, 3), attrs);
  const int64_t e = in[2].shape[-1];
  RefArray result(in[0].shape.with(-1, e));
  for (int64_t row = 0; row < scores.rows; ++row) {
    const RefSoftmax parts(scores, row);
    for (int64_t j = 0; j < scores.s; ++j)
      for (int64_t c = 0; c < e; ++c)
        result[row * e + c] += std::exp(scores.at(row, j) - parts.largest) / parts.total *
                               in[2][(row / scores.t * scores.s + j) * e + c];
  }
  return result;
}

RefArray reference_lse(std::span<const RefArray> in, const Attrs& attrs) {
  const RefScores scores(in[0], in[1], ref_mask(in, 2), attrs);
  RefArray result(without_last(in[0].shape));
  for (int64_t row = 0; row < scores.rows; ++row) {
    const RefSoftmax parts(scores, row);
    result[row] = parts.largest + std::log(parts.total);
  }
  return result;
}

/// Calls f(row of q, row of k, gradient of their score before the scale).
void each_score_grad(std::span<const RefArray> in, const Attrs& attrs,
                     const std::function<void(int64_t, int64_t, double)>& f) {
  const RefScores scores(in[in_q], in[in_k], ref_mask(in, in_mask), attrs);
  const int64_t e = in[in_v].shape[-1];
  for (int64_t row = 0; row < scores.rows; ++row)
    for (int64_t j = 0; j < scores.s; ++j) {
      const int64_t key = row / scores.t * scores.s + j;
      double product = 0;
      for (int64_t c = 0; c < e; ++c) product += in[in_g][row * e + c] * in[in_v][key * e + c];
      f(row, key, std::exp(scores.at(row, j) - in[in_lse][row]) * (product - in[in_delta][row]));
    }
}

RefArray reference_grad_q(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result(in[in_q].shape);
  const int64_t d = result.shape[-1];
  each_score_grad(in, attrs, [&](int64_t row, int64_t key, double ds) {
    for (int64_t c = 0; c < d; ++c) result[row * d + c] += attrs.number("scale") * ds * in[in_k][key * d + c];
  });
  return result;
}

RefArray reference_grad_k(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result(in[in_k].shape);
  const int64_t d = result.shape[-1];
  each_score_grad(in, attrs, [&](int64_t row, int64_t key, double ds) {
    for (int64_t c = 0; c < d; ++c) result[key * d + c] += attrs.number("scale") * ds * in[in_q][row * d + c];
  });
  return result;
}

RefArray reference_grad_v(std::span<const RefArray> in, const Attrs& attrs) {
  const RefScores scores(in[in_q], in[in_k], ref_mask(in, in_mask), attrs);
  RefArray result(in[in_v].shape);
  const int64_t e = result.shape[-1];
  for (int64_t row = 0; row < scores.rows; ++row)
    for (int64_t j = 0; j < scores.s; ++j)
      for (int64_t c = 0; c < e; ++c)
        result[(row / scores.t * scores.s + j) * e + c] +=
            std::exp(scores.at(row, j) - in[in_lse][row]) * in[in_g][row * e + c];
  return result;
}

/// `products`: the number of matrix products over T, S and a feature axis.
auto flops_of(int64_t products) {
  return [products](std::span<const TensorType> in, const TensorType&, const Attrs&) {
    return 2 * products * in[0].shape.with(-1, in[1].shape[-2]).size() * in[0].shape[-1];
  };
}

Attrs attributes(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }

}  // namespace

ATHANOR_OPS(attention) {
  define_op(
      {.name = "scaled_dot_product_attention",
       .doc = "softmax(q k^T * scale + mask) v: q [..., T, D], k [..., S, D], v [..., S, E] -> [..., T, E]",
       .arity = -1,
       .infer = attention_infer,
       .grad = attention_grad,
       .decompose = attention_decompose,
       .reference = attention_reference,
       .cases = {{{{{5, 3}}, {{7, 3}}, {{7, 2}}}, attributes(false, 0.6)},
                 {{{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}}, attributes(true, 0.5)},
                 {{{{2, 1, 3}}, {{2, 17, 3}}, {{2, 17, 3}}, {{2, 1, 17}}}, attributes(false, 1.0)},
                 {{{{0, 5, 3}}, {{0, 7, 3}}, {{0, 7, 3}}}, attributes(true, 1.0)}},
       .shares_with = "attention_lse",
       .flops =
           [](std::span<const TensorType> in, const TensorType& out, const Attrs&) {
             const int64_t scores = in[0].shape.with(-1, in[1].shape[-2]).size();
             return 2 * scores * (in[0].shape[-1] + out.shape[-1]);
           },
       .shared_flops = flops_of(1),
       .tolerance = 8,
       .cast_policy = CastPolicy::allow});
  define_op(
      {.name = "attention_lse",
       .doc = "log(sum(exp(q k^T * scale + mask))) over the keys: q [..., T, D], k [..., S, D] -> [..., T]",
       .arity = -1,
       .infer = infer_lse,
       .decompose =
           [](const std::vector<Tensor>& in, const Attrs& attrs) {
             // The result is wide (f32 or f64), so the scores are too.
             const SoftmaxParts parts(scores_of(widened(in[0]), widened(in[1]), mask_of(in, 2), attrs));
             return squeeze(log(parts.sum) + parts.largest, {-1});
           },
       .reference = reference_lse,
       .cases = {{{{{5, 3}}, {{7, 3}}}, attributes(false, 0.6)},
                 {{{{2, 3, 5, 4}}, {{2, 3, 5, 4}}}, attributes(true, 0.5)},
                 {{{{2, 1, 3}}, {{2, 17, 3}}, {{2, 1, 17}}}, attributes(false, 1.0)}},
       .flops = flops_of(1),
       .tolerance = 8,
       .cast_policy = CastPolicy::allow});
  const std::vector<OpCase> cases = {
      {{{{5, 3}}, {{7, 3}}, {{7, 2}}, {{5, 2}}, {{5}, 1, 3}, {{5}}}, attributes(false, 0.6)},
      {{{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5}, 1, 3}, {{2, 3, 5}}},
       attributes(true, 0.5)},
      {{{{2, 1, 3}}, {{2, 17, 3}}, {{2, 17, 3}}, {{2, 1, 3}}, {{2, 1}, 1, 3}, {{2, 1}}, {{2, 1, 17}}},
       attributes(false, 1.0)}};
  define_op({.name = "attention_grad_q",
             .doc = "scale p (g v^T - delta) k with p = exp(q k^T * scale + mask - lse): the gradient of "
                    "attention by q, "
                    "from q, k, v, the result's gradient g, lse and delta = sum(g * result) of each row",
             .arity = -1,
             .infer =
                 [](std::span<const TensorType> in, const Attrs&) {
                   check_grad(in);
                   return in[in_q];
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   return matmul(cast(score_grad(in, attrs) * attrs.number("scale"), in[in_k].dtype()),
                                 in[in_k]);
                 },
             .reference = reference_grad_q,
             .cases = cases,
             .shares_with = "attention_grad_k",
             .flops = flops_of(3),
             .shared_flops = flops_of(2),  // q k^T and g v^T
             .tolerance = 16,
             .cast_policy = CastPolicy::allow,
             .exact_inputs = {in_lse, in_delta}});
  define_op({.name = "attention_grad_k",
             .doc = "The gradient of attention by k, from what attention_grad_q takes",
             .arity = -1,
             .infer =
                 [](std::span<const TensorType> in, const Attrs&) {
                   check_grad(in);
                   return in[in_k];
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   const Tensor ds = score_grad(in, attrs) * attrs.number("scale");
                   return matmul(transpose(cast(ds, in[in_q].dtype())), in[in_q]);
                 },
             .reference = reference_grad_k,
             .cases = cases,
             .shares_with = "attention_grad_v",
             .flops = flops_of(3),
             .shared_flops = flops_of(1),  // q k^T
             .tolerance = 16,
             .cast_policy = CastPolicy::allow,
             .exact_inputs = {in_lse, in_delta}});
  define_op({.name = "attention_grad_v",
             .doc = "p^T g: the gradient of attention by v, from what attention_grad_q takes",
             .arity = -1,
             .infer =
                 [](std::span<const TensorType> in, const Attrs&) {
                   check_grad(in);
                   return in[in_v];
                 },
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs& attrs) {
                   const Tensor scores = scores_of(in[in_q], in[in_k], mask_of(in, in_mask), attrs);
                   const Tensor p = weights_of(scores, in[in_lse]);
                   return matmul(transpose(cast(p, in[in_g].dtype())), in[in_g]);
                 },
             .reference = reference_grad_v,
             .cases = cases,
             .flops = flops_of(2),
             .tolerance = 16,
             .cast_policy = CastPolicy::allow,
             .exact_inputs = {in_lse, in_delta}});
}

}  // namespace athanor
