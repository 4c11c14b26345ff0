#include "athanor/ops/linalg.h"

#include <fmt/format.h>

#include <numeric>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/product_op.h"

namespace athanor {
namespace {

/// [B, M, N]. Throws Error(shape|dtype) if the matrices do not fit.
Shape shape_of_products(std::span<const TensorType> in) {
  const Shape &a = in[0].shape, &b = in[1].shape;
  if (in[0].dtype != in[1].dtype)
    throw Error(ErrorCode::dtype, "takes inputs of one dtype", {}, "Cast one of them");
  if (a.rank() != 3 || b.rank() != 3)
    throw Error(ErrorCode::shape, "takes [B, M, K] and [B, K, N]", {}, "matmul() takes other ranks");
  if (a[0] != b[0]) throw Error(ErrorCode::shape, fmt::format("{} matrices against {}", a[0], b[0]));
  if (a[2] != b[1])
    throw Error(ErrorCode::shape,
                fmt::format("{} columns on the left against {} rows on the right", a[2], b[1]), {},
                "They must be equal: transpose one of the matrices?");
  return {a[0], a[1], b[2]};
}

TensorType infer_batch_matmul(std::span<const TensorType> in, const Attrs&) {
  check_dtype(in[0], Accept::numbers);
  return {in[0].dtype, shape_of_products(in), {}};
}

bool needs_wide_sums(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

TensorType infer_wide_batch_matmul(std::span<const TensorType> in, const Attrs&) {
  const DType dtype = in[0].dtype;
  if (!needs_wide_sums(dtype))
    throw Error(ErrorCode::dtype, fmt::format("takes i8, f8e4m3 or f8e5m2, not {}", to_string(dtype)), {},
                "matmul() takes other types");
  return {dtype == DType::i8 ? DType::i32 : DType::f32, shape_of_products(in), {}};
}

RefArray reference_batch_matmul(std::span<const RefArray> in, const Attrs&) {
  const int64_t batch = in[0].shape[0], m = in[0].shape[1], k = in[0].shape[2], n = in[1].shape[2];
  RefArray result(Shape{batch, m, n});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          result[(b * m + i) * n + j] += in[0][(b * m + i) * k + l] * in[1][(b * k + l) * n + j];
  return result;
}

Tensor swapped(const Tensor& x) { return permute(x, {0, 2, 1}); }

std::vector<Tensor> batch_matmul_grad(const GradArgs& a) {
  return {a.needed[0] ? batch_matmul(a.grad, swapped(a.inputs[1])) : Tensor(),
          a.needed[1] ? batch_matmul(swapped(a.inputs[0]), a.grad) : Tensor()};
}

std::vector<DType> matmul_dtypes() {
  auto dtypes = float_dtypes();
  dtypes.push_back(DType::i64);
  dtypes.push_back(DType::i32);
  return dtypes;
}

// Converts both to one dtype, and bool to numbers.
std::pair<Tensor, Tensor> factors(const Operand& a, const Operand& b) {
  const Tensor x = as_tensor(a), y = as_tensor(b);
  const DType dtype = promote(x.dtype(), y.dtype());
  return {cast(x, dtype), cast(y, dtype)};
}

Ints joined(const Ints& a, const Ints& b, const Ints& c = {}) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// A product of vectors, matrices or stacks of matrices, as in NumPy. `multiply` takes [B, M, K], [B, K, N].
Tensor of_any_rank(Tensor x, Tensor y, Tensor (*multiply)(Operand, Operand)) {
  if (x.rank() == 0 || y.rank() == 0)
    throw Error(ErrorCode::shape, "takes vectors and matrices", {}, "Multiply by scalars with *");
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = unsqueeze(x, 0);
  if (column) y = unsqueeze(y, 1);
  const int64_t m = x.size(-2), k = x.size(-1), n = y.size(-1);
  if (y.size(-2) != k)
    throw Error(ErrorCode::shape,
                fmt::format("{} columns on the left against {} rows on the right", k, y.size(-2)), {},
                "They must be equal: transpose one of the matrices?");
  const Shape lead_x(x.shape().dims().first(static_cast<size_t>(x.rank() - 2)));
  const Shape lead_y(y.shape().dims().first(static_cast<size_t>(y.rank() - 2)));
  const Shape lead = broadcast_shapes(lead_x, lead_y);
  Ints dims = lead.to_ints();
  Tensor result;
  if (lead_y.size() == 1 &&
      lead == lead_x) {  // one matrix on the right: join the rows of all matrices on the left
    result = multiply(reshape(x, {1, lead.size() * m, k}), reshape(y, {1, k, n}));
  } else {
    const auto all = [&](const Tensor& t, int64_t rows, int64_t columns) {
      return reshape(broadcast_to(t, joined(lead.to_ints(), {rows, columns})), {lead.size(), rows, columns});
    };
    result = multiply(all(x, m, k), all(y, k, n));
  }
  if (!row) dims.push_back(m);
  if (!column) dims.push_back(n);
  return reshape(result, dims);
}

int64_t product(const Shape& shape, const Ints& axes) {
  int64_t n = 1;
  for (int64_t axis : axes) n *= shape[static_cast<int>(axis)];
  return n;
}

// The axes that are in none of the lists.
Ints remaining(int rank, const Ints& used, const Ints& also_used) {
  Ints rest;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (std::find(used.begin(), used.end(), axis) == used.end() &&
        std::find(also_used.begin(), also_used.end(), axis) == also_used.end())
      rest.push_back(axis);
  return rest;
}

// Normalised axes in the given order, unlike normalize_axes; no axis twice.
Ints distinct_axes(const Ints& contracted, const Ints& batch, int rank) {
  normalize_axes(joined(contracted, batch), rank);
  Ints result;
  for (int64_t axis : contracted) result.push_back(normalize_axis(axis, rank));
  return result;
}

void check_pairs(const Shape& a, const Shape& b, const Ints& axes_a, const Ints& axes_b, const char* what) {
  if (axes_a.size() != axes_b.size())
    throw Error(ErrorCode::shape, fmt::format("{} {} axes on the left against {} on the right", axes_a.size(),
                                              what, axes_b.size()));
  for (size_t i = 0; i < axes_a.size(); ++i) {
    const int64_t m = a[static_cast<int>(axes_a[i])], n = b[static_cast<int>(axes_b[i])];
    if (m != n)
      throw Error(ErrorCode::shape, fmt::format("{} axis {} of the left has {}, axis {} of the right {}",
                                                what, axes_a[i], m, axes_b[i], n));
  }
}

}  // namespace

ATHANOR_OPS(linalg) {
  define_op({.name = "batch_matmul",
             .doc = "[B, M, K] x [B, K, N] -> [B, M, N]",
             .prim = Prim::batch_matmul,
             .arity = 2,
             .dtypes = matmul_dtypes(),
             .infer = infer_batch_matmul,
             .grad = batch_matmul_grad,
             .reference = reference_batch_matmul,
             .cases = {{{{{1, 17, 31}}, {{1, 31, 13}}}},
                       {{{{3, 5, 7}}, {{3, 7, 2}}}},
                       {{{{2, 1, 5}}, {{2, 5, 1}}}},
                       {{{{1, 64, 33}}, {{1, 33, 48}}}},
                       {{{{2, 3, 0}}, {{2, 0, 5}}}},
                       {{{{2, 0, 3}}, {{2, 3, 5}}}}},
             .flops = [](std::span<const TensorType> in, const TensorType& out,
                         const Attrs&) { return 2 * out.shape.size() * in[0].shape[2]; },
             .tolerance = 4,
             .is_contraction = true,
             .cast_policy = CastPolicy::allow});
  define_op({.name = "wide_batch_matmul",
             .doc = "[B, M, K] x [B, K, N] -> [B, M, N], of i8 in i32, of f8e4m3 and f8e5m2 in f32",
             .arity = 2,
             .dtypes = {DType::i8, DType::f8e4m3, DType::f8e5m2},
             .infer = infer_wide_batch_matmul,
             .decompose =
                 [](const std::vector<Tensor>& in, const Attrs&) {
                   const DType wide = in[0].dtype() == DType::i8 ? DType::i32 : DType::f32;
                   return batch_matmul(cast(in[0], wide), cast(in[1], wide));
                 },
             .reference = reference_batch_matmul,
             .cases = {{{{{1, 17, 31}, -128, 128}, {{1, 31, 5}, -128, 128}}},  // larger ones: GpuWideTiles
                       {{{{3, 5, 7}}, {{3, 7, 2}}}},
                       {{{{2, 3, 0}}, {{2, 0, 5}}}}},
             .differentiable = false,
             .flops = [](std::span<const TensorType> in, const TensorType& out,
                         const Attrs&) { return 2 * out.shape.size() * in[0].shape[2]; },
             .tolerance = 4,
             .is_contraction = true});
}

const Op& product_op(DType factors) {
  static const Op &same = find_op("batch_matmul"), &wide = find_op("wide_batch_matmul");
  return needs_wide_sums(factors) ? wide : same;
}

Tensor batch_matmul(Operand a, Operand b) {
  static const Op& op = find_op("batch_matmul");
  return in_call(
      "batch_matmul",
      [&] {
        const auto [x, y] = factors(a, b);
        return apply(op, {x, y});
      },
      a, b);
}

Tensor wide_batch_matmul(Operand a, Operand b) {
  static const Op& op = find_op("wide_batch_matmul");
  return in_call(
      "wide_batch_matmul",
      [&] {
        return apply(op, {as_tensor(a), as_tensor(b)});
      },
      a, b);
}

Tensor matmul(Operand a, Operand b) {
  return in_call(
      "matmul",
      [&] {
        const auto [x, y] = factors(a, b);
        return of_any_rank(x, y, batch_matmul);
      },
      a, b);
}

Tensor wide_matmul(Operand a, Operand b) {
  return in_call(
      "wide_matmul", [&] { return of_any_rank(as_tensor(a), as_tensor(b), wide_batch_matmul); }, a, b);
}

Tensor linear(Operand x, Operand weight, const Tensor& bias) {
  return in_call(
      "linear",
      [&] {
        if (as_tensor(weight).rank() != 2 || as_tensor(x).rank() == 0 || x->size(-1) != weight->size(1))
          throw Error(
              ErrorCode::shape, "takes x [..., I] and a weight [O, I]", {},
              as_tensor(weight).rank() == 2 && as_tensor(x).rank() > 0
                  ? fmt::format("x has {} features, the weight takes {}", x->size(-1), weight->size(1))
                  : "");
        if (bias.defined() && bias.shape() != Shape{weight->size(0)})
          throw Error(ErrorCode::shape,
                      fmt::format("the bias is {}, not [{}]", to_string(bias.shape()), weight->size(0)));
        const Tensor y = matmul(x, transpose(weight));
        return bias.defined() ? y + bias : y;
      },
      x, weight);
}

Tensor dot_general(Operand a, Operand b, const Ints& contract_a, const Ints& contract_b, const Ints& batch_a,
                   const Ints& batch_b) {
  return in_call(
      "dot_general",
      [&] {
        const auto [x, y] = factors(a, b);
        const Shape &left = x.shape(), &right = y.shape();
        const Ints over_x = distinct_axes(contract_a, batch_a, left.rank());
        const Ints over_y = distinct_axes(contract_b, batch_b, right.rank());
        const Ints for_x = distinct_axes(batch_a, {}, left.rank()),
                   for_y = distinct_axes(batch_b, {}, right.rank());
        check_pairs(left, right, over_x, over_y, "contracted");
        check_pairs(left, right, for_x, for_y, "batch");
        const Ints free_x = remaining(left.rank(), over_x, for_x),
                   free_y = remaining(right.rank(), over_y, for_y);
        const int64_t batch = product(left, for_x), k = product(left, over_x);
        const int64_t m = product(left, free_x), n = product(right, free_y);
        const Tensor result = batch_matmul(reshape(permute(x, joined(for_x, free_x, over_x)), {batch, m, k}),
                                           reshape(permute(y, joined(for_y, over_y, free_y)), {batch, k, n}));
        Ints dims;
        for (int64_t axis : joined(for_x, free_x)) dims.push_back(left[static_cast<int>(axis)]);
        for (int64_t axis : free_y) dims.push_back(right[static_cast<int>(axis)]);
        return reshape(result, dims);
      },
      a, b);
}

}  // namespace athanor
