// Few rows times a matrix that is packed once and used many times.
#pragma once
#include <algorithm>
#include <cstdint>

#include "athanor/backends/cpu/generic/row_kernel.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {

/// tile [rows, n] += a [rows, k] times b [k, n]. b is packed in panels of few columns. One block of k is used
/// for all panels before the next block, so that the rows' part of it stays in the cache.
template <class T>
class RowProduct {
 public:
  /// `rows`: the most rows that are multiplied at once.
  RowProduct(int64_t k, int64_t n, int64_t rows)
      : kernel_(row_kernel<T>()), k_(k), n_(n), rows_(rows), panels_((n + columns() - 1) / columns()) {}

  int64_t columns() const { return kernel_.columns; }  ///< of a panel
  int64_t panels() const { return panels_; }
  /// The distance between two rows of a tile.
  int64_t width() const { return panels_ * columns(); }

  size_t packed_bytes() const { return aligned(static_cast<size_t>(width() * k_) * sizeof(T)); }
  size_t tile_bytes() const { return aligned(static_cast<size_t>(rows_ * width()) * sizeof(T)); }
  /// The memory that a thread needs: a tile, and then memory for add().
  size_t thread_bytes() const {
    return tile_bytes() + aligned(static_cast<size_t>(rows_ * blocks() * row_kernel_stride) * sizeof(T));
  }
  T* after_tile(T* tile) const { return tile + tile_bytes() / sizeof(T); }

  /// b: element [k, n] is at b[k * row + n * column].
  void pack(const T* b, int64_t row, int64_t column, T* packed) const {
    constexpr int64_t together = 16;  // a square of b, so that its cache lines are read once
    parallel_for(panels_, width() * k_, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t used = std::min(columns(), n_ - panel * columns());
        const T* from = b + panel * columns() * column;
        T* to = packed + panel * k_ * columns();
        if (used < columns()) std::fill_n(to, k_ * columns(), T{0});
        for (int64_t first = 0; first < k_; first += together) {
          const int64_t last = std::min(first + together, k_);
          // In the order in which b lies in memory.
          if (row < column)
            for (int64_t j = 0; j < used; ++j)
              for (int64_t p = first; p < last; ++p) to[p * columns() + j] = from[p * row + j * column];
          else
            for (int64_t p = first; p < last; ++p)
              for (int64_t j = 0; j < used; ++j) to[p * columns() + j] = from[p * row + j * column];
        }
      }
    });
  }

  /// Copies rows a[i * stride] for i < count to `memory`, for add().
  void take(const T* a, int64_t stride, int64_t count, T* memory) const {
    for (int64_t block = 0; block < blocks(); ++block)
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(a + i * stride + block * row_kernel_depth, depth(block),
                    memory + (block * rows_ + i) * row_kernel_stride);
  }
  /// tile[i, j] += sum over p of a[i, p] * b[p, j] for the rows that take() copied and the columns of panels
  /// [begin, end).
  void add(int64_t count, int64_t begin, int64_t end, const T* packed, const T* memory, T* tile) const {
    const int64_t groups = (count + kernel_.most_rows - 1) / kernel_.most_rows;
    for (int64_t block = 0; block < blocks(); ++block)
      for (int64_t panel = begin; panel < end; ++panel) {
        const T* b = packed + (panel * k_ + block * row_kernel_depth) * columns();
        for (int64_t group = 0; group < groups; ++group) {  // nearly equal ones
          const int64_t i = count * group / groups, next = count * (group + 1) / groups;
          kernel_.run(static_cast<int>(next - i), depth(block),
                      memory + (block * rows_ + i) * row_kernel_stride, b,
                      tile + i * width() + panel * columns(), width());
        }
      }
  }

 private:
  int64_t blocks() const { return (k_ + row_kernel_depth - 1) / row_kernel_depth; }
  int64_t depth(int64_t block) const { return std::min(row_kernel_depth, k_ - block * row_kernel_depth); }

  RowKernel<T> kernel_;
  int64_t k_, n_, rows_, panels_;
};

}  // namespace athanor::cpu
