#include "athanor/ops/sparse.h"

#include <fmt/format.h>

#include <functional>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

TensorType csr_type(std::span<const TensorType> in, const Attrs&) {
  const Shape &starts = in[0].shape, &columns = in[1].shape, &values = in[2].shape, &dense = in[3].shape;
  check_dtype(in[2], Accept::floats);
  if (in[0].dtype != DType::i64 || in[1].dtype != DType::i64)
    throw Error(ErrorCode::dtype, "takes row starts and columns of i64", {},
                "Cast them first: cast(index, DType::i64)");
  if (in[3].dtype != in[2].dtype)
    throw Error(ErrorCode::dtype, "takes values and a dense matrix of one dtype", {}, "Cast one of them");
  if (starts.rank() != 1 || starts[0] < 1 || columns.rank() != 1 || values != columns || dense.rank() != 2)
    throw Error(ErrorCode::shape,
                fmt::format("row starts {}, columns {}, values {} and a dense {}", to_string(starts),
                            to_string(columns), to_string(values), to_string(dense)),
                {}, "They are [rows + 1], [elements], [elements] and [columns, N]");
  return {in[2].dtype, {starts[0] - 1, dense[1]}, {}};
}

// The row of each element, i64 [elements]: the number of rows, without row 0, that begin at or before it.
Tensor rows_of(const Tensor& starts, int64_t elements) {
  const int64_t rows = starts.size() - 1;
  const Tensor later = slice(starts, 0, 1, rows);
  // Counted in i32, because many GPUs cannot add i64 atomically.
  const Tensor begun = scatter_add(later, ones({rows - 1}, DType::i32, starts.device()), 0, elements + 1);
  return cast(slice(cumsum(begun, 0), 0, 0, elements), DType::i64);
}

Tensor csr_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const int64_t rows = in[0].size() - 1, elements = in[1].size(), n = in[3].size(1);
  if (rows == 0 || elements == 0 || n == 0) return zeros({rows, n}, in[2].dtype(), in[2].device());
  const Tensor products = take(widened(in[3]), in[1]) * unsqueeze(widened(in[2]), 1);
  const Tensor row = broadcast_to(unsqueeze(rows_of(in[0], elements), 1), {elements, n});
  return cast(scatter_add(row, products, 0, rows), in[2].dtype());
}

// Calls f(row, element, column) for each stored element.
void each_element(const RefArray& starts, const RefArray& columns,
                  const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const int64_t rows = starts.shape[0] - 1;
  for (int64_t e = 0; e < columns.shape[0] && rows > 0; ++e) {
    int64_t row = 0;
    for (int64_t i = 1; i < rows; ++i) row += starts[i] <= static_cast<double>(e);
    f(row, e, static_cast<int64_t>(columns[e]));
  }
}

RefArray reference_csr(std::span<const RefArray> in, const Attrs&) {
  const int64_t n = in[3].shape[1];
  RefArray y({in[0].shape[0] - 1, n});
  each_element(in[0], in[1], [&](int64_t row, int64_t e, int64_t column) {
    for (int64_t j = 0; j < n; ++j) y[row * n + j] += in[2][e] * in[3][column * n + j];
  });
  return y;
}

// ---- Gradients ----

// The type of the gradient by the values or by the dense matrix. Throws if dy does not have the type of the
// result.
TensorType csr_grad_type(const TensorType& starts, const TensorType& columns, const TensorType& values,
                         const TensorType& dense, const TensorType& dy, bool of_values) {
  const TensorType given[] = {starts, columns, values, dense};
  const TensorType y = csr_type(given, {});
  if (y.shape != dy.shape || y.dtype != dy.dtype)
    throw Error(ErrorCode::shape, fmt::format("dy is {}, not {}", to_string(dy), to_string(y)));
  return of_values ? values : dense;
}

TensorType values_grad_type(std::span<const TensorType> in, const Attrs&) {
  return csr_grad_type(in[0], in[1], {in[2].dtype, in[1].shape, {}}, in[2], in[3], true);
}

TensorType dense_grad_type(std::span<const TensorType> in, const Attrs& attrs) {
  if (in[3].shape.rank() != 2)
    throw Error(ErrorCode::shape, fmt::format("dy is {}", to_string(in[3])), {}, "It is [R, N]");
  return csr_grad_type(in[0], in[1], in[2], {in[2].dtype, {attrs.integer("columns"), in[3].shape[1]}, {}},
                       in[3], false);
}

Tensor values_grad_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const int64_t rows = in[0].size() - 1, elements = in[1].size();
  if (rows == 0 || elements == 0) return zeros({elements}, in[2].dtype(), in[2].device());
  const Tensor dy = take(widened(in[3]), rows_of(in[0], elements));
  return cast(sum(dy * take(widened(in[2]), in[1]), 1), in[2].dtype());
}

Tensor dense_grad_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const int64_t rows = in[0].size() - 1, elements = in[1].size(), n = in[3].size(1),
                columns = attrs.integer("columns");
  if (rows == 0 || elements == 0 || n == 0) return zeros({columns, n}, in[2].dtype(), in[2].device());
  const Tensor terms = take(widened(in[3]), rows_of(in[0], elements)) * unsqueeze(widened(in[2]), 1);
  const Tensor column = broadcast_to(unsqueeze(in[1], 1), {elements, n});
  return cast(scatter_add(column, terms, 0, columns), in[2].dtype());
}

RefArray reference_values_grad(std::span<const RefArray> in, const Attrs&) {
  RefArray dvalues(in[1].shape);
  const int64_t n = in[2].shape[1];
  each_element(in[0], in[1], [&](int64_t row, int64_t e, int64_t column) {
    for (int64_t j = 0; j < n; ++j) dvalues[e] += in[3][row * n + j] * in[2][column * n + j];
  });
  return dvalues;
}

RefArray reference_dense_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const int64_t n = in[3].shape[1];
  RefArray ddense({attrs.integer("columns"), n});
  each_element(in[0], in[1], [&](int64_t row, int64_t e, int64_t column) {
    for (int64_t j = 0; j < n; ++j) ddense[column * n + j] += in[2][e] * in[3][row * n + j];
  });
  return ddense;
}

Tensor values_grad(const Tensor& starts, const Tensor& columns, const Tensor& dense, const Tensor& dy) {
  return apply(find_op("csr_matmul_values_grad"), {starts, columns, dense, dy});
}

Tensor dense_grad(const Tensor& starts, const Tensor& columns, const Tensor& values, const Tensor& dy,
                  int64_t total) {
  return apply(find_op("csr_matmul_dense_grad"), {starts, columns, values, dy}, {{"columns", total}});
}

// Each of the three ops is linear in each of its two factors, so its gradients are the other two ops.
std::vector<Tensor> csr_gradient(const GradArgs& a) {
  const auto& in = a.inputs;
  return {Tensor(), Tensor(), a.needed[2] ? values_grad(in[0], in[1], in[3], a.grad) : Tensor(),
          a.needed[3] ? dense_grad(in[0], in[1], in[2], a.grad, in[3].size(0)) : Tensor()};
}

std::vector<Tensor> values_grad_gradient(const GradArgs& a) {
  const auto& in = a.inputs;
  return {Tensor(), Tensor(), a.needed[2] ? dense_grad(in[0], in[1], a.grad, in[3], in[2].size(0)) : Tensor(),
          a.needed[3] ? apply(find_op("csr_matmul"), {in[0], in[1], a.grad, in[2]}) : Tensor()};
}

std::vector<Tensor> dense_grad_gradient(const GradArgs& a) {
  const auto& in = a.inputs;
  return {Tensor(), Tensor(), a.needed[2] ? values_grad(in[0], in[1], a.grad, in[3]) : Tensor(),
          a.needed[3] ? apply(find_op("csr_matmul"), {in[0], in[1], in[2], a.grad}) : Tensor()};
}

// Throws Error(value) for wrong row starts or columns, if the host has them.
void check_csr(const CsrMatrix& m) {
  const int64_t elements = m.columns.size();
  if (const auto starts = m.row_starts.known_integers(); starts && !starts->empty()) {
    if (starts->front() != 0 || starts->back() != elements)
      throw Error(ErrorCode::value,
                  fmt::format("the row starts go from {} to {}", starts->front(), starts->back()), {},
                  fmt::format("They go from 0 to the number of elements, {}", elements));
    for (size_t i = 1; i < starts->size(); ++i)
      if ((*starts)[i] < (*starts)[i - 1])
        throw Error(
            ErrorCode::value,
            fmt::format("row {} starts at {}, before row {} at {}", i, (*starts)[i], i - 1, (*starts)[i - 1]),
            {}, "Sort the elements by rows");
  }
  if (const auto columns = m.columns.known_integers())
    for (size_t i = 0; i < columns->size(); ++i)
      if ((*columns)[i] < 0 || (*columns)[i] >= m.columns_total)
        throw Error(ErrorCode::value,
                    fmt::format("element {} is in column {}, of {}", i, (*columns)[i], m.columns_total), {},
                    fmt::format("Columns are in [0, {})", m.columns_total));
}

}  // namespace

ATHANOR_OPS(sparse) {
  const auto of = [](int64_t rows, int64_t columns, int64_t elements, int64_t n) {
    const auto d = [](int64_t value) { return static_cast<double>(value); };
    return OpCase{{{{rows + 1}, 0, d(elements + 1), DType::i64},
                   {{elements}, 0, d(columns), DType::i64},
                   {{elements}},
                   {{columns, n}}}};
  };
  define_op(
      {.name = "csr_matmul",
       .doc =
           "row starts i64 [R + 1], columns i64 [E], values [E] of a sparse matrix, dense [C, N] -> [R, N]",
       .arity = 4,
       .infer = csr_type,
       .grad = csr_gradient,
       .decompose = csr_decompose,
       .reference = reference_csr,
       .cases = {of(5, 7, 11, 3), of(1, 3, 4, 1), of(4, 3, 0, 2), of(17, 5, 6, 4)},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 2 * in[1].shape.size() * in[3].shape[1]; },
       .tolerance = 4});
  const auto grad_case = [&](int64_t rows, int64_t columns, int64_t elements, int64_t n, bool by_values) {
    OpCase one = of(rows, columns, elements, n);
    if (by_values) return OpCase{{one.inputs[0], one.inputs[1], one.inputs[3], {{rows, n}}}};
    return OpCase{{one.inputs[0], one.inputs[1], one.inputs[2], {{rows, n}}}, {{"columns", columns}}};
  };
  const auto grad_flops = [](std::span<const TensorType> in, const auto&, const auto&) {
    return 2 * in[1].shape.size() * in[3].shape[1];
  };
  define_op(
      {.name = "csr_matmul_values_grad",
       .doc = "row starts, columns, dense [C, N], dy [R, N] -> the gradient of csr_matmul by the values, [E]",
       .arity = 4,
       .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of csr_matmul
       .infer = values_grad_type,
       .grad = values_grad_gradient,
       .decompose = values_grad_decompose,
       .reference = reference_values_grad,
       .cases = {grad_case(5, 7, 11, 3, true), grad_case(4, 3, 0, 2, true), grad_case(1, 3, 4, 17, true)},
       .flops = grad_flops,
       .tolerance = 4});
  define_op(
      {.name = "csr_matmul_dense_grad",
       .doc = "row starts, columns, values, dy [R, N] -> the gradient of csr_matmul by the dense matrix, "
              "[columns, N]",
       .arity = 4,
       .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of csr_matmul
       .infer = dense_grad_type,
       .grad = dense_grad_gradient,
       .decompose = dense_grad_decompose,
       .reference = reference_dense_grad,
       .cases = {grad_case(5, 7, 11, 3, false), grad_case(4, 3, 0, 2, false), grad_case(1, 3, 4, 17, false)},
       .flops = grad_flops,
       .tolerance = 4});
}

Tensor csr_matmul(const CsrMatrix& matrix, Operand dense) {
  static const Op& op = find_op("csr_matmul");
  return in_call(
      "csr_matmul",
      [&] {
        const Tensor right = as_tensor(dense);
        if (right.rank() != 2 || right.size(0) != matrix.columns_total)
          throw Error(ErrorCode::shape, fmt::format("the dense matrix is {}", to_string(right.shape())), {},
                      fmt::format("The sparse one has {} columns, so it is [{}, N]", matrix.columns_total,
                                  matrix.columns_total));
        check_csr(matrix);
        const auto index = [](const Tensor& x) { return is_int(x.dtype()) ? cast(x, DType::i64) : x; };
        return apply(op, {index(matrix.row_starts), index(matrix.columns), matrix.values, right});
      },
      dense, Operand(matrix.row_starts), Operand(matrix.columns), Operand(matrix.values));
}

}  // namespace athanor
