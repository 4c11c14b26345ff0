// Words of 32 bits in vectors, from which tiles of AMX are packed. For files of kernels only.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "athanor/graph/dtype.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own headers.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define ATHANOR_AMX __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace athanor::cpu {

constexpr int64_t tile_elements = 512;  // of bf16 in a tile: 16 rows of 32

using Words = __m512i;

// Transposes 16 x 16 words.
ATHANOR_AMX inline void transpose(Words (&r)[16]) {
  Words t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[i + j] now has, in its lane of 128 bits l, column 4 l + j of rows i to i + 3.
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    const Words even_low = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88),
                odd_low = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd),
                even_high = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88),
                odd_high = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// A mask of the first n of 16 or 32.
ATHANOR_AMX inline __mmask16 first_16(int64_t n) {
  return static_cast<__mmask16>((uint32_t{1} << std::clamp<int64_t>(n, 0, 16)) - 1);
}
ATHANOR_AMX inline __mmask32 first_32(int64_t n) {
  return static_cast<__mmask32>((uint64_t{1} << std::clamp<int64_t>(n, 0, 32)) - 1);
}

// Makes words of 16 pairs of bf16 numbers.
ATHANOR_AMX inline Words pairs_of(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

ATHANOR_AMX inline void store_tile_rows(const Words (&rows)[16], bf16* to) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 32, rows[i]);
}

}  // namespace athanor::cpu
