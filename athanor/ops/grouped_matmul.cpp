// Products of groups of rows, each with a matrix of its own.
#include <fmt/format.h>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/group_ends.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

void check_groups(const TensorType& x, const TensorType& other, const TensorType& ends) {
  check_dtype(x, Accept::floats);
  if (x.dtype != other.dtype)
    throw Error(ErrorCode::dtype, "takes factors of one dtype", {}, "Cast one of them");
  if (ends.dtype != DType::i64)
    throw Error(ErrorCode::dtype, fmt::format("takes ends of i64, not {}", to_string(ends.dtype)), {},
                "Cast them first: cast(ends, DType::i64)");
}

TensorType grouped_type(std::span<const TensorType> in, const Attrs&) {
  const Shape &x = in[0].shape, &w = in[1].shape, &ends = in[2].shape;
  check_groups(in[0], in[1], in[2]);
  if (x.rank() != 2 || w.rank() != 3 || ends.rank() != 1)
    throw Error(ErrorCode::shape, "takes x [T, K], w [E, K, N] and ends [E]", {},
                "matmul() multiplies by one matrix");
  if (w[0] != ends[0]) throw Error(ErrorCode::shape, fmt::format("{} matrices for {} ends", w[0], ends[0]));
  if (x[1] != w[1])
    throw Error(ErrorCode::shape,
                fmt::format("{} columns on the left against {} rows on the right", x[1], w[1]), {},
                "They must be equal: transpose the matrices?");
  return {in[0].dtype, {x[0], w[2]}, {}};
}

TensorType grouped_grad_type(std::span<const TensorType> in, const Attrs&) {
  const Shape &x = in[0].shape, &dy = in[1].shape, &ends = in[2].shape;
  check_groups(in[0], in[1], in[2]);
  if (x.rank() != 2 || dy.rank() != 2 || ends.rank() != 1 || x[0] != dy[0])
    throw Error(ErrorCode::shape,
                fmt::format("x {}, dy {} and ends {}", to_string(x), to_string(dy), to_string(ends)), {},
                "They are [T, K], [T, N] and [E]");
  return {in[0].dtype, {ends[0], x[1], dy[1]}, {}};
}

// ---- Decompositions: every row is multiplied by every matrix, so they are slow ----

// The number of the row's group, i64 [T]: how many groups end at or before it. Reports bad ends.
Tensor groups_of_rows(const Tensor& given, int64_t rows) {
  const int64_t groups = given.size();
  const Device device = given.device();
  // take() reports indices outside [0, rows]. Lengths of groups are such indices, and so is the last end.
  const Tensor allowed = arange(rows + 1, DType::i64, device);
  const Tensor before = concat({zeros({1}, DType::i64, device), slice(given, 0, 0, groups - 1)}, 0);
  const Tensor ends = take(allowed, before + take(allowed, given - before, 0), 0);
  const Tensor row = broadcast_to(arange(rows, DType::i64, device), {groups, rows});
  const Tensor ended = less_equal(broadcast_to(unsqueeze(ends, 1), {groups, rows}), row);
  return cast(sum(cast(ended, DType::i32), 0), DType::i64);
}

Tensor grouped_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const int64_t rows = in[0].size(0), inner = in[0].size(1), groups = in[1].size(0), columns = in[1].size(2);
  Tensor nothing = zeros({rows, columns}, in[0].dtype(), in[0].device());
  if (rows == 0 || groups == 0 || columns == 0) return nothing;
  const Tensor group = groups_of_rows(in[2], rows);
  const Tensor all = batch_matmul(broadcast_to(in[0], {groups, rows, inner}), in[1]);
  const Tensor some = minimum(group, full({}, static_cast<double>(groups - 1), DType::i64, group.device()));
  const Tensor of_group = gather(all, broadcast_to(reshape(some, {1, rows, 1}), {1, rows, columns}), 0);
  const Tensor has_group = less(group, full({}, static_cast<double>(groups), DType::i64, group.device()));
  return where(broadcast_to(unsqueeze(has_group, 1), {rows, columns}), reshape(of_group, {rows, columns}),
               nothing);
}

Tensor grouped_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const Tensor &x = in[0], &dy = in[1];
  const int64_t rows = x.size(0), inner = x.size(1), groups = in[2].size(), columns = dy.size(1);
  if (rows == 0 || groups == 0 || inner == 0 || columns == 0)
    return zeros({groups, inner, columns}, x.dtype(), x.device());
  const Tensor number =
      broadcast_to(reshape(arange(groups, DType::i64, x.device()), {groups, 1, 1}), {groups, rows, 1});
  const Tensor group = broadcast_to(reshape(groups_of_rows(in[2], rows), {1, rows, 1}), {groups, rows, 1});
  const auto own = [&](const Tensor& all) {
    const Ints shape{groups, rows, all.size(1)};
    return where(broadcast_to(equal(group, number), shape), broadcast_to(all, shape),
                 zeros(Shape(shape), all.dtype(), all.device()));
  };
  return batch_matmul(permute(own(x), {0, 2, 1}), own(dy));
}

// ---- References ----

// Calls f(group, row) for each row of each group.
void each_row(const RefArray& ends, const std::function<void(int64_t, int64_t)>& f) {
  int64_t row = 0;
  for (int64_t group = 0; group < ends.shape[0]; ++group)
    for (; row < static_cast<int64_t>(ends[group]); ++row) f(group, row);
}

RefArray reference_grouped(std::span<const RefArray> in, const Attrs&) {
  const int64_t inner = in[0].shape[1], columns = in[1].shape[2];
  RefArray y({in[0].shape[0], columns});
  each_row(in[2], [&](int64_t group, int64_t row) {
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t n = 0; n < columns; ++n)
        y[row * columns + n] += in[0][row * inner + k] * in[1][(group * inner + k) * columns + n];
  });
  return y;
}

RefArray reference_grouped_grad(std::span<const RefArray> in, const Attrs&) {
  const int64_t inner = in[0].shape[1], columns = in[1].shape[1];
  RefArray dw({in[2].shape[0], inner, columns});
  each_row(in[2], [&](int64_t group, int64_t row) {
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t n = 0; n < columns; ++n)
        dw[(group * inner + k) * columns + n] += in[0][row * inner + k] * in[1][row * columns + n];
  });
  return dw;
}

// ---- Gradients ----

Tensor multiply_groups(const Tensor& x, const Tensor& w, const Tensor& ends) {
  return apply(find_op("grouped_matmul"), {x, w, ends});
}

Tensor turned(const Tensor& w) { return permute(w, {0, 2, 1}); }

Tensor weight_grad(const Tensor& x, const Tensor& dy, const Tensor& ends) {
  return apply(find_op("grouped_matmul_weight_grad"), {x, dy, ends});
}

// Each of the two ops is linear in each of its two factors, so its gradients are these ops.
std::vector<Tensor> grouped_gradient(const GradArgs& a) {
  const auto& in = a.inputs;
  return {a.needed[0] ? multiply_groups(a.grad, turned(in[1]), in[2]) : Tensor(),
          a.needed[1] ? weight_grad(in[0], a.grad, in[2]) : Tensor(), Tensor()};
}

std::vector<Tensor> grouped_grad_gradient(const GradArgs& a) {
  const auto& in = a.inputs;
  return {a.needed[0] ? multiply_groups(in[1], turned(a.grad), in[2]) : Tensor(),
          a.needed[1] ? multiply_groups(in[0], a.grad, in[2]) : Tensor(), Tensor()};
}

}  // namespace

ATHANOR_OPS(grouped_matmul) {
  // `last`: above the largest end.
  const auto of = [](int64_t rows, int64_t inner, int64_t groups, int64_t columns, int64_t first,
                     int64_t last) {
    return OpCase{{{{rows, inner}},
                   {{groups, inner, columns}},
                   {{groups}, static_cast<double>(first), static_cast<double>(last), DType::i64}}};
  };
  const auto grad_of = [&](int64_t rows, int64_t inner, int64_t groups, int64_t columns, int64_t first,
                           int64_t last) {
    OpCase one = of(rows, inner, groups, columns, first, last);
    one.inputs[1] = {{rows, columns}};
    return one;
  };
  const auto cases = [](const auto& make) {
    return std::vector<OpCase>{
        make(17, 5, 4, 7, 0, 18),    make(13, 3, 1, 19, 13, 14),  // one group of all rows
        make(7, 4, 5, 3, 3, 5),                                   // empty groups
        make(5, 3, 3, 2, 0, 1),                                   // all rows are behind the last end
        make(33, 17, 3, 18, 20, 34), make(0, 3, 2, 5, 0, 1),     make(3, 0, 2, 5, 1, 4)};
  };
  define_op({.name = "grouped_matmul",
             .doc = "x [T, K], w [E, K, N], ends i64 [E] -> [T, N]: rows up to ends[e] and not before "
                    "ends[e - 1] are multiplied by w[e]; later ones give zeros",
             .arity = 3,
             .infer = grouped_type,
             .grad = grouped_gradient,
             .decompose = grouped_decompose,
             .reference = reference_grouped,
             .cases = cases(of),
             .flops = [](std::span<const TensorType> in, const TensorType& out,
                         const Attrs&) { return 2 * out.shape.size() * in[0].shape[1]; },
             .tolerance = 4,
             .is_contraction = true,
             .cast_policy = CastPolicy::allow,
             .group_ends = 2});
  define_op({.name = "grouped_matmul_weight_grad",
             .doc = "x [T, K], dy [T, N], ends i64 [E] -> the gradient of grouped_matmul by w, [E, K, N]",
             .arity = 3,
             .infer = grouped_grad_type,
             .grad = grouped_grad_gradient,
             .decompose = grouped_grad_decompose,
             .reference = reference_grouped_grad,
             .cases = cases(grad_of),
             .flops = [](std::span<const TensorType> in, const TensorType&,
                         const Attrs&) { return 2 * in[0].shape.size() * in[1].shape[1]; },
             .tolerance = 4,
             .is_contraction = true,
             .cast_policy = CastPolicy::allow,
             .group_ends = 2});
}

Tensor grouped_matmul(Operand x, Operand w, Operand ends) {
  static const Op& op = find_op("grouped_matmul");
  return in_call(
      "grouped_matmul",
      [&] {
        const Tensor rows = as_tensor(x), matrices = as_tensor(w), last = as_tensor(ends);
        const DType dtype = promote(rows.dtype(), matrices.dtype());
        if (rows.rank() == 2)
          if (const auto known = last.known_integers()) check_group_ends(*known, rows.size(0));
        return apply(op, {cast(rows, dtype), cast(matrices, dtype),
                          is_int(last.dtype()) ? cast(last, DType::i64) : last});
      },
      x, w, ends);
}

}  // namespace athanor
