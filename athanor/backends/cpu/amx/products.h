// Products of matrices on Intel's matrix unit (AMX), which multiplies tiles of bf16 and adds up in f32.
#pragma once
#include <cstdint>
#include <type_traits>

#include "athanor/backends/cpu/amx/multiplier.h"
#include "athanor/backends/cpu/generic/gemm_products.h"
#include "athanor/base/ceil_div.h"

namespace athanor::cpu {

/// How Gemm multiplies matrices of T, f32 or bf16, with AMX.
///
/// An f32 number is the sum of three bf16 numbers of 8 bits each, x = x0 + x1 + x2, each the nearest to what
/// is left of x. Of the nine products in x y six are computed: x1 y2, x2 y1 and x2 y2 are below 2^-25 of it,
/// less than an f32 product is rounded by. (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial
/// Intelligence Datatype for Higher-Precision Computations, 2019.) Parts, and products of
/// parts, below 2^-126 count as 0: results below 2^-100 lose bits.
///
/// A panel has 32 rows of A or columns of B. For each 32 elements of k and each part, it holds two tiles.
template <class T>
class AmxProducts {
 public:
  using Sum = float;
  using Packed = bf16;
  static constexpr int parts = amx_parts<T>;
  static constexpr int64_t most_rows = 256, most_depth = parts == 3 ? 512 : 1024, depth_unit = 32;
  static constexpr int64_t most_of_b = parts == 3 ? 1 << 20 : 1 << 22;
  static constexpr bool stores_results = true, sums_in_c = std::is_same_v<T, Sum>;

  static int64_t rows() { return 32; }
  static int64_t columns() { return 32; }
  static int64_t packed_size(int64_t vectors, int64_t depth) {
    return ceil_div(vectors, 32) * 32 * ceil_div(depth, 32) * 32 * parts;
  }
  /// False if an f32 number has no such parts: if it is infinite, NaN, or rounds to infinity in bf16.
  static bool pack_rows(const GemmPart<T>& a, Packed* to);
  static bool pack_columns(const GemmPart<T>& b, Packed* to);

  class Multiplier : AmxMultiplier<T> {
   public:
    explicit Multiplier(const AmxProducts&) {}
    void run(const GemmTile<T>& tile, int64_t depth, const Packed* a, const Packed* b) {
      AmxMultiplier<T>::run({tile, {}}, depth, a, b);
    }
    using AmxMultiplier<T>::finish;
  };
};

}  // namespace athanor::cpu
