#include "athanor/backends/cpu/amx/multiplier.h"

#if ATHANOR_HAS_AMX
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "athanor/backends/cpu/amx/words.h"
#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/base/ceil_div.h"

namespace athanor::cpu {
namespace {

// Registers 0 to 3 hold the sums of four tiles, 4 and 5 tiles of A, 6 and 7 tiles of B.

template <int part>
ATHANOR_AMX inline void load_a(const bf16* a, bool both) {
  _tile_loadd(4, a + part * 2 * tile_elements, 64);
  if (both) _tile_loadd(5, a + (part * 2 + 1) * tile_elements, 64);
}
template <int part>
ATHANOR_AMX inline void load_b(const bf16* b, bool both) {
  _tile_loadd(6, b + part * 2 * tile_elements, 64);
  if (both) _tile_loadd(7, b + (part * 2 + 1) * tile_elements, 64);
}
template <bool tall, bool wide>
ATHANOR_AMX inline void multiply_loaded() {
  _tile_dpbf16ps(0, 4, 6);
  if (wide) _tile_dpbf16ps(1, 4, 7);
  if (tall) _tile_dpbf16ps(2, 5, 6);
  if (tall && wide) _tile_dpbf16ps(3, 5, 7);
}

// Fetches 16 lines of the next step's tiles of A, which come from the second-level cache.
template <int64_t parts, int64_t from>
ATHANOR_AMX inline void fetch_next(const bf16* a) {
#pragma GCC unroll 16
  for (int64_t line = from; line < from + 16; ++line)
    _mm_prefetch(a + 2 * parts * tile_elements + line * 32, _MM_HINT_T0);
}

// Adds the products of 32 elements of k. Of f32's parts small products come first. From one product to the
// next, one factor stays in its registers.
template <int parts, bool tall, bool wide>
ATHANOR_AMX inline void multiply_step(const bf16* a, const bf16* b) {
  if constexpr (parts == 3) {
    load_a<2>(a, tall), load_b<0>(b, wide), multiply_loaded<tall, wide>(), fetch_next<parts, 0>(a);
    load_a<1>(a, tall), multiply_loaded<tall, wide>(), fetch_next<parts, 16>(a);
    load_b<1>(b, wide), multiply_loaded<tall, wide>(), fetch_next<parts, 32>(a);
    load_a<0>(a, tall), multiply_loaded<tall, wide>(), fetch_next<parts, 48>(a);
    load_b<2>(b, wide), multiply_loaded<tall, wide>(), fetch_next<parts, 64>(a);
    load_b<0>(b, wide), multiply_loaded<tall, wide>(), fetch_next<parts, 80>(a);
  } else {
    load_a<0>(a, tall), load_b<0>(b, wide), multiply_loaded<tall, wide>();
  }
}

ATHANOR_AMX inline void store_16(float* to, __mmask16 used, __m512 v) { _mm512_mask_storeu_ps(to, used, v); }
ATHANOR_AMX inline void store_16(bf16* to, __mmask16 used, __m512 v) {
  _mm256_mask_storeu_epi16(to, used, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}
ATHANOR_AMX inline __m512 load_16(const float* from, __mmask16 used) {
  return _mm512_maskz_loadu_ps(used, from);
}
ATHANOR_AMX inline __m512 load_16(const bf16* from, __mmask16 used) {
  const Words bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(used, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

// Goes through the rows of a tile in the memory that they are stored to.
template <class To>
class StoredRows {
 public:
  StoredRows(To* first, int64_t stride) : at_(first), stride_(stride) {}
  StoredRows(To* first, int64_t stride, const AmxResultOrder& order)
      : at_(first), stride_(stride), right_(order.right), rows_left_(order.first_run), order_(&order) {}

  To* left() const { return at_; }            // columns 0 to 15
  To* right() const { return at_ + right_; }  // columns 16 to 31
  void next() {
    at_ += stride_;
    if (--rows_left_ == 0) at_ += order_->jump, rows_left_ = order_->run;
  }

 private:
  To* at_;
  int64_t stride_, right_ = 16, rows_left_ = std::numeric_limits<int64_t>::max();
  const AmxResultOrder* order_ = nullptr;
};

// Stores the rows of a tile in `sums`. Few instructions, since those of the next tile wait for them.
// `check` becomes NaN if an f32 result is infinite or NaN.
template <bool whole, bool add, class T, class To>
ATHANOR_AMX inline void store_rows(const GemmTile<T>& tile, const float* sums, StoredRows<To> to, bool last,
                                   __m512& check) {
  const __mmask16 left = whole ? 0xffff : first_16(tile.columns),
                  right = whole ? 0xffff : first_16(tile.columns - 16);
  __m512 left_bias = _mm512_setzero_ps(), right_bias = left_bias, least = _mm512_set1_ps(-INFINITY);
  if (last && tile.bias != nullptr) {
    left_bias = load_16(tile.bias, left);
    right_bias = load_16(tile.bias + 16, right);
  }
  if (last && tile.end.relu) least = _mm512_setzero_ps();
  const float* before = tile.sums;
  for (int64_t row = 0; row < tile.rows; ++row, sums += 32, to.next()) {
    __m512 v = _mm512_load_ps(sums), w = _mm512_load_ps(sums + 16);
    if (add) {
      v = _mm512_add_ps(v, load_16(before, left)), w = _mm512_add_ps(w, load_16(before + 16, right));
      before += tile.stride;
    }
    if (std::is_same_v<T, float>) {  // inf * 0 is NaN
      check = _mm512_fmadd_ps(v, _mm512_setzero_ps(), check);
      check = _mm512_fmadd_ps(w, _mm512_setzero_ps(), check);
    }
    v = _mm512_add_ps(v, left_bias), w = _mm512_add_ps(w, right_bias);
    // VMAXPS returns its second operand if one is NaN, and so keeps NaN.
    store_16(to.left(), left, _mm512_max_ps(least, v));
    store_16(to.right(), right, _mm512_max_ps(least, w));
  }
}
template <class T, class To>
ATHANOR_AMX inline void store_rows(const GemmTile<T>& tile, const float* sums, const StoredRows<To>& to,
                                   bool last, __m512& check) {
  if (tile.columns == 32)
    tile.end.add ? store_rows<true, true>(tile, sums, to, last, check)
                 : store_rows<true, false>(tile, sums, to, last, check);
  else
    tile.end.add ? store_rows<false, true>(tile, sums, to, last, check)
                 : store_rows<false, false>(tile, sums, to, last, check);
}

// Stores the results of a tile, or its sums. Returns false if one of f32 is infinite or NaN.
template <class T>
ATHANOR_AMX bool store_tile(const AmxTile<T>& tile, const float* sums) {
  __m512 check = _mm512_setzero_ps();
  if (tile.results != nullptr)
    store_rows(tile, sums, StoredRows<T>(tile.results, tile.result_stride, tile.order), true, check);
  else
    store_rows(tile, sums, StoredRows<float>(tile.sums, tile.stride), false, check);
  return has_no_nan(check);
}

// Fetches the lines of the next `count` rows.
template <class To>
void fetch_rows(int64_t count, StoredRows<To>& rows) {
  for (; count > 0; --count, rows.next()) {
    fetch_to_write(rows.left());
    fetch_to_write(reinterpret_cast<const std::byte*>(rows.right() + 16) - 1);
  }
}

}  // namespace

// Multiplies panels, stores the tile before, whose sums are in `sums`, and leaves this one's sums there.
// Meanwhile it fetches the lines that this tile will be stored to. Returns what store_tile() returned.
template <class T, bool tall, bool wide>
ATHANOR_AMX static bool multiply_panels(const AmxTile<T>& tile, int64_t depth, const bf16* a, const bf16* b,
                                        const AmxTile<T>& before, float* sums) {
  constexpr int64_t step = 2 * tile_elements * amx_parts<T>;
  // GCC does not know that tiles are loaded from memory, so packing must not be moved behind them.
  asm volatile("" : : : "memory");
  _tile_zero(0);
  if (wide) _tile_zero(1);
  if (tall) _tile_zero(2);
  if (tall && wide) _tile_zero(3);
  const int64_t steps = ceil_div(depth, 32), rows_a_step = steps == 0 ? 0 : ceil_div(tile.rows, steps);
  StoredRows<T> result_rows(tile.results, tile.result_stride, tile.order);
  StoredRows<float> sum_rows(tile.sums, tile.stride);
  int64_t unfetched = tile.columns == 32 ? tile.rows : 0;
  for (int64_t i = 0; i < steps; ++i, a += step, b += step, unfetched -= rows_a_step) {
    const int64_t rows = std::min(rows_a_step, unfetched);
    tile.results != nullptr ? fetch_rows(rows, result_rows) : fetch_rows(rows, sum_rows);
    multiply_step<amx_parts<T>, tall, wide>(a, b);
  }
  const bool finite = store_tile(before, sums);
  _tile_stored(0, sums, 128);
  if (wide) _tile_stored(1, sums + 16, 128);
  if (tall) _tile_stored(2, sums + 16 * 32, 128);
  if (tall && wide) _tile_stored(3, sums + 16 * 32 + 16, 128);
  return finite;
}

template <class T>
void AmxMultiplier<T>::run(const AmxTile<T>& tile, int64_t depth, const bf16* a, const bf16* b) {
  const bool tall = tile.rows > 16, wide = tile.columns > 16;
  if (tall && wide)
    finite_ &= multiply_panels<T, true, true>(tile, depth, a, b, tile_, sums_);
  else if (tall)
    finite_ &= multiply_panels<T, true, false>(tile, depth, a, b, tile_, sums_);
  else if (wide)
    finite_ &= multiply_panels<T, false, true>(tile, depth, a, b, tile_, sums_);
  else
    finite_ &= multiply_panels<T, false, false>(tile, depth, a, b, tile_, sums_);
  tile_ = tile;
}

template <class T>
bool AmxMultiplier<T>::finish() {
  finite_ &= store_tile(tile_, sums_);
  tile_ = {};
  return finite_;
}

template class AmxMultiplier<float>;
template class AmxMultiplier<bf16>;

}  // namespace athanor::cpu
#endif
