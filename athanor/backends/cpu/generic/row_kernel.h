// The innermost loop of the product of a few rows and a packed matrix.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// Rows lie `row_kernel_stride` elements apart and are at most `row_kernel_depth` long: a constant distance
/// costs no address arithmetic, and one that is no power of two keeps rows apart in the cache.
constexpr int64_t row_kernel_depth = 256, row_kernel_stride = row_kernel_depth + 16;

/// For i < rows, j < columns:
/// c[i * ldc + j] += sum over p < k of a[i * row_kernel_stride + p] * b[p * columns + j].
template <class T>
struct RowKernel {
  int most_rows, columns;
  /// `rows`: at most most_rows. Computes only these rows.
  void (*run)(int rows, int64_t k, const T* a, const T* b, T* c, int64_t ldc);
};

/// The fastest kernel for this processor.
template <class T>
RowKernel<T> row_kernel();
template <>
RowKernel<float> row_kernel();
template <>
RowKernel<double> row_kernel();

}  // namespace athanor::cpu
