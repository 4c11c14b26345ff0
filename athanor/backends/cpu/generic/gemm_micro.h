// The innermost loop of matrix multiplication.
#pragma once
#include <cstdint>

namespace athanor::cpu {

/// The product of two packed panels: for i < rows, j < columns
/// c[i * ldc + j] = sum over p < k of a[p * rows + i] * b[p * columns + j], plus what was there if `add`.
template <class T>
struct MicroKernel {
  static constexpr int most_elements = 12 * 32;  // of a tile: rows * columns
  int rows, columns;
  void (*run)(int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add);
};

/// The fastest kernel for this processor: vector code for float and double, plain loops for uint32_t and
/// uint64_t.
template <class T>
MicroKernel<T> micro_kernel();

}  // namespace athanor::cpu
