// What Gemm asks of the arithmetic below it, and that arithmetic with vectors.
#pragma once
#include <cstdint>
#include <type_traits>

#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/gemm_pack.h"
#include "athanor/backends/cpu/generic/numeric.h"

namespace athanor::cpu {

/// A part of A or B: `depth` elements, from element p on, of the vectors [first, first + count). A vector is
/// a row of A or a column of B.
template <class T>
struct GemmPart {
  const T* matrix;
  int64_t stride, depth_stride;  // from vector to vector, and from element to element
  int64_t first, count, p, depth;

  Vectors<T> vectors() const {
    return {matrix + first * stride + p * depth_stride, count, stride, depth, depth_stride};
  }
};

/// A tile of C, and what becomes of its sums.
template <class T>
struct GemmTile {
  int64_t row, column, rows, columns;
  /// The sums, whose rows are `stride` elements apart. With end.add, those of earlier parts of k are there.
  Acc<T>* sums;
  int64_t stride;
  /// After the last part of k, where the Products store results: the sums are not stored then, but
  /// activation(sums + bias), in rows `result_stride` elements apart. Else nullptr.
  T* results = nullptr;
  int64_t result_stride = 0;
  /// C's first element, for Products that store results in another order.
  T* c = nullptr;
  const T* bias = nullptr;  // one number for each column, or nullptr
  /// What micro kernels do with the sums. `end.bias` is set only if T is the type of sums. (It is not copied
  /// for them: loads of what was just stored in smaller pieces wait until all products before are done.)
  TileEnd<Acc<T>> end = {};
};

/// Products of panels with vectors. Gemm takes any type with these members.
template <class T>
class VectorProducts {
 public:
  using Sum = Acc<T>;
  using Packed = Sum;  // an element of a packed panel
  /// Of A's rows and of k, the most that are packed at a time.
  static constexpr int64_t most_rows = 144, most_depth = 256;
  /// The most elements of B that are packed for all threads at a time.
  static constexpr int64_t most_of_b = 1 << 20;
  static constexpr int64_t depth_unit = 1;  // parts of k, but the last, are multiples of it
  /// Whether a tile's results can be stored. Otherwise only its sums are, and Gemm finishes them.
  static constexpr bool stores_results = std::is_same_v<Sum, T>;
  /// Whether sums of several parts of k are kept in C itself, row by row.
  static constexpr bool sums_in_c = std::is_same_v<Sum, T>;

  int64_t rows() const { return micro_.rows; }        // of a tile, and of A's panels
  int64_t columns() const { return micro_.columns; }  // of a tile, and of B's panels
  /// The elements of packed panels that have `vectors` vectors in all.
  static int64_t packed_size(int64_t vectors, int64_t depth) { return vectors * depth; }
  /// Packs panels. Returns false if the numbers cannot be multiplied so.
  bool pack_rows(const GemmPart<T>& a, Packed* to) const { return pack(a.vectors(), micro_.rows, to), true; }
  bool pack_columns(const GemmPart<T>& b, Packed* to) const {
    return pack(b.vectors(), micro_.columns, to), true;
  }

  /// Each thread makes one for the tiles that it multiplies.
  class Multiplier {
   public:
    explicit Multiplier(const VectorProducts& products) : micro_(products.micro_) {}
    /// Multiplies a panel of A by one of B.
    void run(const GemmTile<T>& tile, int64_t depth, const Packed* a, const Packed* b) {
      run_tile(micro_, depth, a, b, tile.sums, tile.stride, tile.rows, tile.columns, tile.end);
    }
    /// Stores what is left to store. Returns false if the results may be wrong.
    [[nodiscard]] bool finish() { return true; }

   private:
    const MicroKernel<Sum>& micro_;
  };

 private:
  MicroKernel<Sum> micro_ = micro_kernel<Sum>();
};

}  // namespace athanor::cpu
