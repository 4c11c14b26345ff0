#include "athanor/backends/cpu/amx/conv_products.h"

#if ATHANOR_HAS_AMX
#include <algorithm>

#include "athanor/backends/cpu/amx/words.h"

namespace athanor::cpu {
namespace {

constexpr int64_t block = Windows::block;

ATHANOR_AMX inline __m256i load_block(const bf16* from, bool inside) {
  return _mm256_maskz_loadu_epi16(inside ? 0xffff : 0, from);
}
ATHANOR_AMX inline Words load_block(const float* from, bool inside) {
  return _mm512_maskz_loadu_epi32(inside ? 0xffff : 0, from);
}

// Stores a row of a tile from two blocks of a window.
ATHANOR_AMX inline void store_channels(__m256i low, __m256i high, bf16* to, __m512&) {
  _mm512_store_si512(to, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
ATHANOR_AMX inline void store_channels(Words low, Words high, bf16* to, __m512& check) {
  store_parts(low, high, to, 2 * tile_elements, check);
}

// A window's 32 channels make a row of a tile.
template <class T>
ATHANOR_AMX void pack_channels(const Windows::Taps& taps, const T* from, int64_t plane, bf16* to,
                               __m512& check) {
  for (int i = 0; i < 32; ++i, to += 32) {
    const bool inside = (taps.inside >> i & 1) != 0;
    const T* low = from + taps.offset[i];
    store_channels(load_block(low, inside), load_block(low + plane, inside), to, check);
  }
}

// Pairs of windows make a row of a tile, which has a column for each of 16 channels.
ATHANOR_AMX void pack_windows(const Windows::Taps& taps, const bf16* from, bf16* to, __m512&) {
  for (int i = 0; i < 32; i += 2, to += 32)
    _mm512_store_si512(to, pairs_of(load_block(from + taps.offset[i], (taps.inside >> i & 1) != 0),
                                    load_block(from + taps.offset[i + 1], (taps.inside >> i & 2) != 0)));
}
ATHANOR_AMX void pack_windows(const Windows::Taps& taps, const float* from, bf16* to, __m512& check) {
  for (int i = 0; i < 16; ++i, to += 32)
    store_parts(load_block(from + taps.offset[i], (taps.inside >> i & 1) != 0),
                load_block(from + taps.offset[i + 16], (taps.inside >> (i + 16) & 1) != 0), to,
                2 * tile_elements, check);
}

// Packs 16 results' gradients of 32 windows at these offsets (-1: none). Pairs of windows make a row's words.
ATHANOR_AMX void pack_gradients(const int64_t (&offset)[32], const bf16* from, bf16* to, __m512&) {
  Words rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const int64_t even = offset[2 * i], odd = offset[2 * i + 1];
    rows[i] = pairs_of(load_block(from + std::max<int64_t>(even, 0), even >= 0),
                       load_block(from + std::max<int64_t>(odd, 0), odd >= 0));
  }
  transpose(rows);
  store_tile_rows(rows, to);
}
ATHANOR_AMX void pack_gradients(const int64_t (&offset)[32], const float* from, bf16* to, __m512& check) {
  Words low[16], high[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    low[i] = load_block(from + std::max<int64_t>(offset[i], 0), offset[i] >= 0);
    high[i] = load_block(from + std::max<int64_t>(offset[i + 16], 0), offset[i + 16] >= 0);
  }
  transpose(low);
  transpose(high);
  for (int i = 0; i < 16; ++i) store_parts(low[i], high[i], to + i * 32, 2 * tile_elements, check);
}

template <class T>
constexpr int64_t step_elements = 2 * tile_elements * AmxProducts<T>::parts;

}  // namespace

template <class T>
ATHANOR_AMX bool AmxConvProducts<T>::pack_rows(const GemmPart<T>& image, Packed* to) const {
  Windows::Taps taps;
  __m512 check = _mm512_setzero_ps();
  const int64_t channels = windows_.channels(), end = image.p + image.depth;
  for (int64_t row = 0; row < image.count; row += 32)
    for (int64_t p = image.p, known = -1; p < end; p += 32, to += step_elements<T>) {
      if (const int64_t tap = p / channels; tap != known) {
        windows_.find(image.first + row, image.count - row, tap, taps);
        known = tap;
      }
      pack_channels(taps, image.matrix + p % channels / block * windows_.plane(), windows_.plane(), to,
                    check);
    }
  return has_no_nan(check);
}

template <class T>
bool AmxConvProducts<T>::pack_columns(const GemmPart<T>& weights, Packed* to) const {
  const int64_t channels = windows_.channels(), end = weights.p + weights.depth;
  bool all = true;
  for (int64_t column = 0; column < weights.count; column += 32)
    for (int64_t p = weights.p; p < end;) {
      const int64_t tap = p / channels, channel = p % channels, depth = std::min(channels - channel, end - p);
      const GemmPart<T> of_tap{weights.matrix + weights_.first + tap * weights_.tap_stride,
                               weights_.result_stride,
                               weights_.channel_stride,
                               weights.first + column,
                               std::min<int64_t>(weights.count - column, 32),
                               channel,
                               depth};
      all &= AmxProducts<T>::pack_columns(of_tap, to);
      p += depth, to += AmxProducts<T>::packed_size(32, depth);
    }
  return all;
}

template <class T>
void AmxConvProducts<T>::Multiplier::run(const GemmTile<T>& tile, int64_t depth, const Packed* a,
                                         const Packed* b) {
  AmxTile<T> placed{tile, {}};
  if (tile.results != nullptr) {
    const int64_t of_image = products_.windows_.of_image(), results = products_.results_,
                  pixel = tile.row % of_image;
    placed.results = tile.c + (tile.row / of_image * results + tile.column) * of_image + pixel * block;
    placed.result_stride = block;
    placed.order = {.right = of_image * block,
                    .first_run = of_image - pixel,
                    .run = of_image,
                    .jump = (results - block) * of_image};
  }
  AmxMultiplier<T>::run(placed, depth, a, b);
}

template <class T>
ATHANOR_AMX bool AmxConvWeightProducts<T>::pack_rows(const GemmPart<T>& gradient, Packed* to) const {
  const int64_t of_image = windows_.of_image(), end = gradient.p + gradient.depth;
  __m512 check = _mm512_setzero_ps();
  for (int64_t result = 0; result < gradient.count; result += 32)
    for (int64_t p = gradient.p; p < end; p += 32, to += step_elements<T>)
      for (int64_t half = 0; half < 32; half += block) {
        int64_t offset[32];
        for (int64_t i = 0; i < 32; ++i) {
          const int64_t window = p + i;
          offset[i] = result + half < gradient.count && window < end
                          ? window / of_image * results_ * of_image + window % of_image * block
                          : -1;
        }
        pack_gradients(offset, gradient.matrix + (gradient.first + result + half) * of_image, to + half * 32,
                       check);
      }
  return has_no_nan(check);
}

template <class T>
ATHANOR_AMX bool AmxConvWeightProducts<T>::pack_columns(const GemmPart<T>& image, Packed* to) const {
  Windows::Taps taps;
  __m512 check = _mm512_setzero_ps();
  for (int64_t column = 0; column < image.count; column += 32) {
    const int64_t tap = (image.first + column) / windows_.channels(),
                  channel = (image.first + column) % windows_.channels();
    for (int64_t p = 0; p < image.depth; p += 32, to += step_elements<T>) {
      windows_.find(image.p + p, image.depth - p, tap, taps);
      for (int64_t half = 0; half < 32; half += block)
        pack_windows(taps, image.matrix + (channel + half) / block * windows_.plane(), to + half * 32, check);
    }
  }
  return has_no_nan(check);
}

template class AmxConvProducts<float>;
template class AmxConvProducts<bf16>;
template class AmxConvWeightProducts<float>;
template class AmxConvWeightProducts<bf16>;

}  // namespace athanor::cpu
#endif
