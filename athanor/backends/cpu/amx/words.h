// Words of 32 bits in vectors, from which tiles of AMX are packed. For files of kernels only.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "athanor/graph/dtype.h"

#define ATHANOR_AMX __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics where they are inlined, if their header is precompiled.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

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

// Stores the parts of the numbers in `low` and `high` as pairs. `check` becomes NaN if one has no parts.
ATHANOR_AMX inline void store_parts(Words low, Words high, bf16* to, int64_t part_stride, __m512& check) {
  const Words rounding = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  __m512 low_rest = _mm512_castsi512_ps(low), high_rest = _mm512_castsi512_ps(high);
#pragma GCC unroll 3
  for (int part = 0; part < 3; ++part, to += part_stride) {
    low = _mm512_castps_si512(low_rest), high = _mm512_castps_si512(high_rest);
    if (part < 2) {
      low = _mm512_and_si512(_mm512_add_epi32(low, rounding), upper);
      high = _mm512_and_si512(_mm512_add_epi32(high, rounding), upper);
      low_rest = _mm512_sub_ps(low_rest, _mm512_castsi512_ps(low));
      high_rest = _mm512_sub_ps(high_rest, _mm512_castsi512_ps(high));
    }
    if (part == 0) {  // inf - inf and inf * 0 are NaN
      check = _mm512_fmadd_ps(low_rest, _mm512_setzero_ps(), check);
      check = _mm512_fmadd_ps(high_rest, _mm512_setzero_ps(), check);
    }
    // (upper & high) | low: a last part below 2^-126 may have more than 8 bits.
    _mm512_store_si512(to, _mm512_ternarylogic_epi32(upper, high, _mm512_srli_epi32(low, 16), 0xea));
  }
}

ATHANOR_AMX inline bool has_no_nan(__m512 check) {
  return _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) == 0;
}

ATHANOR_AMX inline void store_tile_rows(const Words (&rows)[16], bf16* to) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 32, rows[i]);
}

}  // namespace athanor::cpu
