#include "athanor/backends/cpu/amx/products.h"

#if ATHANOR_HAS_AMX
#include <algorithm>

#include "athanor/backends/cpu/amx/words.h"

namespace athanor::cpu {
namespace {

// A tile of A has a row for each of 16 vectors, with pairs of their elements. A tile of B has a row for each
// pair of elements, with those of 16 vectors. A pair is a word of 32 bits, so that the one is the transpose
// of the other. The same elements are paired in A and B: f32's are 16 apart, which takes fewest
// instructions; bf16's are neighbours, as they are in memory.

// At most 16 vectors and 32 elements of each.
template <class T>
struct Block {
  const T* from;
  int64_t count, stride, depth, depth_stride;
};

// Loads f32 numbers: rows[i] are the elements from `first` on of vector i, or with `by_depth` element
// first + i of the vectors.
ATHANOR_AMX inline void load_rows(const Block<float>& b, int64_t first, bool by_depth, Words (&rows)[16]) {
  const float* from = b.from + first * b.depth_stride;
  const int64_t depth = b.depth - first;
  if (b.depth_stride == 1 || b.stride == 1) {
    const bool lies_by_depth = b.depth_stride != 1;
    const int64_t count = lies_by_depth ? depth : b.count, stride = lies_by_depth ? b.depth_stride : b.stride;
    const __mmask16 used = first_16(lies_by_depth ? b.count : depth);
    const float* later = from + 32 * b.depth_stride;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rows[i] = i < count ? _mm512_maskz_loadu_epi32(used, from + i * stride) : _mm512_setzero_si512();
      _mm_prefetch(later + i * stride, _MM_HINT_T0);
    }
    if (lies_by_depth != by_depth) transpose(rows);
    return;
  }
  alignas(64) float copy[16][16] = {};
  for (int64_t i = 0; i < b.count; ++i)
    for (int64_t p = 0; p < std::min<int64_t>(depth, 16); ++p)
      (by_depth ? copy[p][i] : copy[i][p]) = from[i * b.stride + p * b.depth_stride];
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_si512(copy[i]);
}

// Packs a tile of each part. `columns`: of B.
ATHANOR_AMX inline void pack_tiles(const Block<float>& b, bool columns, bf16* to, int64_t part_stride,
                                   __m512& check) {
  Words low[16], high[16];
  load_rows(b, 0, columns, low);
  load_rows(b, 16, columns, high);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store_parts(low[i], high[i], to + i * 32, part_stride, check);
}

ATHANOR_AMX inline void pack_tiles(const Block<bf16>& b, bool columns, bf16* to, int64_t, __m512&) {
  Words rows[16];
  if (b.depth_stride == 1) {
    const __mmask32 used = first_32(b.depth);
    for (int i = 0; i < 16; ++i)
      rows[i] = i < b.count ? _mm512_maskz_loadu_epi16(used, b.from + i * b.stride) : _mm512_setzero_si512();
    if (columns) transpose(rows);
  } else if (b.stride == 1) {
    const __mmask16 used = first_16(b.count);
    for (int i = 0; i < 16; ++i) {
      const bf16* pair = b.from + 2 * i * b.depth_stride;
      const auto even = 2 * i < b.depth ? _mm256_maskz_loadu_epi16(used, pair) : _mm256_setzero_si256();
      const auto odd = 2 * i + 1 < b.depth ? _mm256_maskz_loadu_epi16(used, pair + b.depth_stride)
                                           : _mm256_setzero_si256();
      rows[i] = pairs_of(even, odd);
    }
    if (!columns) transpose(rows);
  } else {
    alignas(64) bf16 copy[16][32] = {};
    for (int64_t i = 0; i < b.count; ++i)
      for (int64_t p = 0; p < b.depth; ++p) copy[i][p] = b.from[i * b.stride + p * b.depth_stride];
    for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_si512(copy[i]);
    if (columns) transpose(rows);
  }
  store_tile_rows(rows, to);
}

template <class T>
ATHANOR_AMX bool pack_panels(const Vectors<T>& v, bool columns, bf16* to) {
  constexpr int parts = AmxProducts<T>::parts;
  __m512 check = _mm512_setzero_ps();
  for (int64_t first = 0; first < v.count; first += 32)
    for (int64_t p = 0; p < v.depth; p += 32, to += parts * 2 * tile_elements)
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t vector = first + 16 * half;
        const Block<T> block{v.from + vector * v.stride + p * v.depth_stride,
                             std::clamp<int64_t>(v.count - vector, 0, 16), v.stride,
                             std::min<int64_t>(v.depth - p, 32), v.depth_stride};
        pack_tiles(block, columns, to + half * tile_elements, 2 * tile_elements, check);
      }
  return has_no_nan(check);
}

}  // namespace

template <class T>
bool AmxProducts<T>::pack_rows(const GemmPart<T>& a, Packed* to) {
  return pack_panels(a.vectors(), false, to);
}
template <class T>
bool AmxProducts<T>::pack_columns(const GemmPart<T>& b, Packed* to) {
  return pack_panels(b.vectors(), true, to);
}

template class AmxProducts<float>;
template class AmxProducts<bf16>;

}  // namespace athanor::cpu
#endif
