// The innermost loop of matrix multiplication.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// Adds a product of two packed panels to a tile: for i < rows, j < columns
/// c[i * ldc + j] += sum over p < k of a[p * rows + i] * b[p * columns + j].
template <class T>
struct MicroKernel {
  int rows, columns;
  void (*run)(int64_t k, const T* a, const T* b, T* c, int64_t ldc);
};

/// The fastest kernel for this processor: vector code for float and double, plain loops for uint32_t and
/// uint64_t.
template <class T>
MicroKernel<T> micro_kernel();

}  // namespace athanor::cpu
