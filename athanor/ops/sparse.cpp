#include "athanor/ops/sparse.h"

#include <fmt/format.h>

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

// The row of each of the elements: how many rows but the first begin at or before it. i64 [elements]
Tensor rows_of(const Tensor& starts, int64_t elements) {
  const int64_t rows = starts.size() - 1;
  const Tensor later = slice(starts, 0, 1, rows);
  const Tensor begun = scatter_add(later, ones({rows - 1}, DType::i64, starts.device()), 0, elements + 1);
  return slice(cumsum(begun, 0), 0, 0, elements);
}

Tensor csr_decompose(const std::vector<Tensor>& in, const Attrs&) {
  const int64_t rows = in[0].size() - 1, elements = in[1].size(), n = in[3].size(1);
  if (rows == 0 || elements == 0 || n == 0) return zeros({rows, n}, in[2].dtype(), in[2].device());
  const Tensor products = take(widened(in[3]), in[1]) * unsqueeze(widened(in[2]), 1);
  const Tensor row = broadcast_to(unsqueeze(rows_of(in[0], elements), 1), {elements, n});
  return cast(scatter_add(row, products, 0, rows), in[2].dtype());
}

RefArray reference_csr(std::span<const RefArray> in, const Attrs&) {
  const int64_t rows = in[0].shape[0] - 1, n = in[3].shape[1];
  RefArray y({rows, n});
  for (int64_t e = 0; e < in[1].shape[0] && rows > 0; ++e) {
    int64_t row = 0;
    for (int64_t i = 1; i < rows; ++i) row += in[0][i] <= static_cast<double>(e);
    for (int64_t j = 0; j < n; ++j)
      y[row * n + j] += in[2][e] * in[3][static_cast<int64_t>(in[1][e]) * n + j];
  }
  return y;
}

// Throws for what the host knows of a matrix that is none.
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
       .decompose = csr_decompose,
       .reference = reference_csr,
       .cases = {of(5, 7, 11, 3), of(1, 3, 4, 1), of(4, 3, 0, 2), of(17, 5, 6, 4)},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 2 * in[1].shape.size() * in[3].shape[1]; },
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
