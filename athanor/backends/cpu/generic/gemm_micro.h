// The innermost loop of matrix multiplication.
#pragma once
#include <algorithm>
#include <cstdint>

namespace athanor::cpu {

/// Fetches a cache line that is about to be written. (GCC's builtin fetches it for reading, unless PREFETCHW
/// is sure to be there; then the store waits for the line again. Processors without PREFETCHW do nothing.)
inline void fetch_to_write(const void* line) {
#if defined(__x86_64__) && defined(__GNUC__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#elif defined(__GNUC__)
  __builtin_prefetch(line, 1);
#else
  static_cast<void>(line);
#endif
}

/// What becomes of the sums of a tile before they are stored.
template <class T>
struct TileEnd {
  /// What was there is added, after all products, so that none of them waits for it.
  bool add = false;
  /// Then these are added, one for each column, if there are any.
  const T* bias = nullptr;
  /// Then negative sums become 0. NaN stays.
  bool relu = false;
  /// The rows of the tile that is written next, `next_stride` elements apart, which are fetched to the caches
  /// meanwhile.
  const T* next = nullptr;
  int64_t next_rows = 0, next_stride = 0;
};

/// The product of two packed panels: for i < rows, j < columns
/// c[i * ldc + j] = sum over p < k of a[p * rows + i] * b[p * columns + j], in this order.
template <class T>
struct MicroKernel {
  static constexpr int most_rows = 12, most_columns = 32;
  int rows, columns;  // of a tile
  /// Computes and stores the first `some` rows of the tile.
  void (*run)(int64_t some, int64_t k, const T* a, const T* b, T* c, int64_t ldc, const TileEnd<T>& end);
  /// Adds one product after the other to what was there, in a whole tile: parts of k give the same bits as
  /// all of it at once.
  void (*go_on)(int64_t k, const T* a, const T* b, T* c, int64_t ldc);
};

/// The fastest kernel for this processor: vector code for float and double, plain loops for uint32_t and
/// uint64_t.
template <class T>
MicroKernel<T> micro_kernel();

/// run(), of which only the first `rows` and `columns` of the tile are stored. `end.bias` has `columns`
/// elements.
template <class T>
void run_tile(const MicroKernel<T>& micro, int64_t k, const T* a, const T* b, T* c, int64_t ldc, int64_t rows,
              int64_t columns, const TileEnd<T>& end) {
  if (columns == micro.columns) return micro.run(rows, k, a, b, c, ldc, end);
  // The sums go through a tile of their own, in the same order as those of whole tiles.
  T tile[MicroKernel<T>::most_rows * MicroKernel<T>::most_columns] = {},
                                     bias[MicroKernel<T>::most_columns] = {};
  for (int64_t i = 0; i < rows && end.add; ++i) std::copy_n(c + i * ldc, columns, tile + i * micro.columns);
  TileEnd<T> narrow = end;
  if (end.bias != nullptr) {
    std::copy_n(end.bias, columns, bias);
    narrow.bias = bias;
  }
  micro.run(rows, k, a, b, tile, micro.columns, narrow);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(tile + i * micro.columns, columns, c + i * ldc);
}

}  // namespace athanor::cpu
