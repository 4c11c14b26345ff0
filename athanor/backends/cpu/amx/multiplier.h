// Multiplication of packed panels by Intel's matrix unit (AMX).
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "athanor/backends/cpu/amx/amx.h"
#include "athanor/backends/cpu/generic/gemm_products.h"

namespace athanor::cpu {

/// The bf16 numbers whose sum a number of T is.
template <class T>
constexpr int amx_parts = std::is_same_v<T, float> ? 3 : 1;

/// How results lie in memory if not as the rows of a matrix.
struct AmxResultOrder {
  /// The distance between columns 0 and 16, in elements.
  int64_t right = 16;
  /// After this many rows, and then after each `run` rows, the next row is `jump` elements further on.
  int64_t first_run = std::numeric_limits<int64_t>::max(), run = 0, jump = 0;
};
template <class T>
struct AmxTile : GemmTile<T> {
  AmxResultOrder order;
};

/// Multiplies panels of parts of T, as AmxProducts packs them. It stores the results of a tile while it
/// multiplies the next one.
template <class T>
class AmxMultiplier {
 public:
  AmxMultiplier() = default;
  ~AmxMultiplier() { finish(); }
  AmxMultiplier(const AmxMultiplier&) = delete;
  AmxMultiplier& operator=(const AmxMultiplier&) = delete;
  void run(const AmxTile<T>& tile, int64_t depth, const bf16* a, const bf16* b);
  /// Stores the last tile. Returns false if f32 results were infinite or NaN: f32 instructions may compute
  /// others, as parts may overflow before their sum does.
  bool finish();

 private:
  AmxTiles tiles_;
  // The last tile, which is still to be stored, and its sums.
  AmxTile<T> tile_{};
  bool finite_ = true;
  alignas(64) float sums_[32 * 32];
};

}  // namespace athanor::cpu
