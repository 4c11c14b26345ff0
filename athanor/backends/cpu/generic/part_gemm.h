// Matrix multiplication by one thread, which computes a part of a larger result.
#pragma once
#include <algorithm>

#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/gemm_pack.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"

namespace athanor::cpu {

/// C [m, n] = A [m, k] B [k, n] by blocks as those of Gemm, for extents that are known when it runs. The
/// order in which the products of an element are added depends on k alone.
template <class T>
class PartGemm {
 public:
  struct Matrix {
    const T* at;
    int64_t row, column;  // strides in elements
  };

  /// For products that have at most these extents.
  PartGemm(int64_t rows, int64_t columns, int64_t depth)
      : micro_(micro_kernel<A>()),
        block_columns_(std::min(round_up(std::max<int64_t>(columns, 1), micro_.columns),
                                int64_t{most_panels} * micro_.columns)),
        rows_(std::min(std::max<int64_t>(rows, 1), most_sums)),
        depth_(std::clamp<int64_t>(depth, 1, most_depth)) {}

  int64_t panel() const { return micro_.columns; }
  size_t scratch_bytes() const { return a_bytes() + b_bytes() + sums_bytes(); }

  /// Rows of C are `c_row` elements apart.
  void run(Matrix a, Matrix b, T* c, int64_t c_row, int64_t m, int64_t n, int64_t k,
           std::byte* scratch) const {
    if (k == 0)
      for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_row, n, T{});
    const int64_t slab = in_place ? std::max<int64_t>(m, 1) : most_sums;
    for (int64_t i = 0; i < m && k > 0; i += slab)
      for (int64_t j = 0; j < n; j += block_columns_)
        run_block({a.at + i * a.row, a.row, a.column}, {b.at + j * b.column, b.row, b.column},
                  c + i * c_row + j, c_row, std::min(slab, m - i), std::min(block_columns_, n - j), k,
                  scratch);
  }

 private:
  using A = Acc<T>;
  // Whether sums are kept in C itself. Otherwise those of most_sums rows are kept in scratch memory.
  static constexpr bool in_place = std::is_same_v<A, T>;
  static constexpr int64_t most_rows = 144, most_depth = 256, most_panels = 16, most_sums = 4 * most_rows;

  static int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
  size_t a_bytes() const {
    return aligned(static_cast<size_t>(round_up(std::min(rows_, most_rows), micro_.rows) * depth_) *
                   sizeof(A));
  }
  size_t b_bytes() const { return aligned(static_cast<size_t>(block_columns_ * depth_) * sizeof(A)); }
  size_t sums_bytes() const {
    return in_place ? 0 : aligned(static_cast<size_t>(rows_ * block_columns_) * sizeof(A));
  }

  void run_block(Matrix a, Matrix b, T* c, int64_t c_row, int64_t m, int64_t n, int64_t k,
                 std::byte* scratch) const {
    A* const packed_a = reinterpret_cast<A*>(scratch);
    A* const packed_b = reinterpret_cast<A*>(scratch + a_bytes());
    A* sums;
    if constexpr (in_place)
      sums = c;
    else
      sums = reinterpret_cast<A*>(scratch + a_bytes() + b_bytes());
    const int64_t stride = in_place ? c_row : block_columns_;
    for (int64_t p = 0; p < k; p += depth_) {
      const int64_t depth = std::min(depth_, k - p);
      pack(Vectors<T>{b.at + p * b.row, n, b.column, depth, b.row}, micro_.columns, packed_b);
      for (int64_t i = 0; i < m; i += most_rows) {
        const int64_t rows = std::min(most_rows, m - i);
        pack(Vectors<T>{a.at + i * a.row + p * a.column, rows, a.row, depth, a.column}, micro_.rows,
             packed_a);
        for (int64_t j = 0; j < n; j += micro_.columns)
          for (int64_t r = 0; r < rows; r += micro_.rows)
            run_tile(micro_, depth, packed_a + r * depth, packed_b + j * depth, sums + (i + r) * stride + j,
                     stride, std::min<int64_t>(micro_.rows, rows - r),
                     std::min<int64_t>(micro_.columns, n - j), {.add = p > 0});
      }
    }
    if constexpr (!in_place)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) c[i * c_row + j] = store<T>(sums[i * stride + j]);
  }

  MicroKernel<A> micro_;
  int64_t block_columns_, rows_, depth_;
};

}  // namespace athanor::cpu
