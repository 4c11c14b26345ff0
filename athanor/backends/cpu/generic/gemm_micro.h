// The innermost loop of matrix multiplication.
#pragma once
#include <algorithm>
#include <cstdint>

namespace athanor::cpu {

/// The product of two packed panels: for i < rows, j < columns
/// c[i * ldc + j] = sum over p < k of a[p * rows + i] * b[p * columns + j], in this order.
template <class T>
struct MicroKernel {
  static constexpr int most_elements = 12 * 32;  // of a tile: rows * columns
  int rows, columns;
  /// With `add`, what was there is added last, so that no product waits for it.
  void (*run)(int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add);
  /// Adds one product after the other to what was there: parts of k give the same bits as all of it at once.
  void (*go_on)(int64_t k, const T* a, const T* b, T* c, int64_t ldc);
};

/// The fastest kernel for this processor: vector code for float and double, plain loops for uint32_t and
/// uint64_t.
template <class T>
MicroKernel<T> micro_kernel();

/// Fetches the lines of the tile at c, which is written after the next one.
template <class T>
void prefetch_tile(const MicroKernel<T>& micro, const T* c, int64_t ldc) {
  for (int i = 0; i < micro.rows; ++i) {
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + micro.columns - 1, 1);
  }
}

/// run(), of which only the first `rows` and `columns` of the tile are stored.
template <class T>
void add_tile(const MicroKernel<T>& micro, int64_t k, const T* a, const T* b, T* c, int64_t ldc, int64_t rows,
              int64_t columns, bool add) {
  if (rows == micro.rows && columns == micro.columns) return micro.run(k, a, b, c, ldc, add);
  // The sums go through a tile of their own, in the same order as those of whole tiles.
  T tile[MicroKernel<T>::most_elements] = {};
  for (int64_t i = 0; i < rows && add; ++i) std::copy_n(c + i * ldc, columns, tile + i * micro.columns);
  micro.run(k, a, b, tile, micro.columns, add);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(tile + i * micro.columns, columns, c + i * ldc);
}

}  // namespace athanor::cpu
