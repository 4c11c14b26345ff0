#include "athanor/backends/gpu/libraries/blas.h"

#include <algorithm>

#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/templates/gemm.h"

namespace athanor::gpu {
namespace {

using Matrix = BlasProduct::Matrix;

// A matrix [rows, columns] with these strides, if one of its axes is contiguous.
std::optional<Matrix> matrix_of(const GemmProblem::Operand& x, int64_t rows, int64_t columns,
                                int64_t row_stride, int64_t column_stride, int64_t batch) {
  if (x.batch < 0) return {};
  const int64_t next = batch == 1 ? 0 : x.batch;
  if ((row_stride == 1 || rows == 1) && (columns == 1 || column_stride >= rows))
    return Matrix{x.buffer, rows, columns, false, columns == 1 ? rows : column_stride, next};
  if ((column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns))
    return Matrix{x.buffer, columns, rows, true, rows == 1 ? columns : row_stride, next};
  return {};
}

bool fits_32_bits(const Matrix& matrix) { return matrix.leading <= INT32_MAX; }

}  // namespace

std::optional<BlasProduct> blas_product(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (std::ranges::any_of(request.inputs, [&](const OperandDesc& x) { return x.dtype != dtype; })) return {};
  const GemmProblem p(request);
  BlasProduct product{.m = p.n, .n = p.m, .k = p.k, .batch = p.batch};
  if (std::max({p.m, p.n, p.k, p.batch}) > INT32_MAX) return {};
  const auto a = matrix_of(p.b, p.n, p.k, p.b.column, p.b.row, p.batch);
  const auto b = matrix_of(p.a, p.k, p.m, p.a.column, p.a.row, p.batch);
  if (!a || !b || !fits_32_bits(*a) || !fits_32_bits(*b)) return {};
  const auto epilogue = simple_epilogue(request);
  if (!epilogue) return {};
  product.a = *a;
  product.b = *b;
  product.c = {p.c.buffer, p.n, p.m, false, p.c.row, p.batch == 1 ? 0 : p.c.batch};
  if (epilogue->bias) product.bias_buffer = 2;
  return product;
}

int data_type_number(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0;
    case DType::f64:
      return 1;
    case DType::f16:
      return 2;
    case DType::bf16:
      return 14;
    default:
      return -1;
  }
}

}  // namespace athanor::gpu
