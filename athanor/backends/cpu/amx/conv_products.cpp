#include "athanor/backends/cpu/amx/conv_products.h"

#if ATHANOR_HAS_AMX
#include "athanor/backends/cpu/amx/words.h"

namespace athanor::cpu {
namespace {

constexpr int64_t block = Windows::block;

ATHANOR_AMX inline __m256i load_block(const bf16* from, bool inside) {
  return _mm256_maskz_loadu_epi16(inside ? 0xffff : 0, from);
}

// A window's 32 channels make a row of a tile.
ATHANOR_AMX void pack_channels(const Windows::Taps& taps, const bf16* from, int64_t plane, bf16* to) {
  for (int i = 0; i < 32; ++i, to += 32) {
    const bool inside = (taps.inside >> i & 1) != 0;
    const bf16* low = from + taps.offset[i];
    const Words row = _mm512_inserti64x4(_mm512_castsi256_si512(load_block(low, inside)),
                                         load_block(low + plane, inside), 1);
    _mm512_store_si512(to, row);
  }
}

// Pairs of windows make a row of a tile, which has a column for each of 16 channels.
ATHANOR_AMX void pack_windows(const Windows::Taps& taps, const bf16* from, bf16* to) {
  for (int i = 0; i < 32; i += 2, to += 32)
    _mm512_store_si512(to, pairs_of(load_block(from + taps.offset[i], (taps.inside >> i & 1) != 0),
                                    load_block(from + taps.offset[i + 1], (taps.inside >> i & 2) != 0)));
}

}  // namespace

bool AmxConvProducts::pack_rows(const GemmPart<bf16>& image, Packed* to) const {
  Windows::Taps taps;
  const int64_t channels = windows_.channels(), end = image.p + image.depth;
  for (int64_t row = 0; row < image.count; row += 32)
    for (int64_t p = image.p, known = -1; p < end; p += 32, to += 2 * tile_elements) {
      if (const int64_t tap = p / channels; tap != known) {
        windows_.find(image.first + row, image.count - row, tap, taps);
        known = tap;
      }
      pack_channels(taps, image.matrix + p % channels / block * windows_.plane(), windows_.plane(), to);
    }
  return true;
}

bool AmxConvProducts::pack_columns(const GemmPart<bf16>& weights, Packed* to) const {
  const int64_t channels = windows_.channels(), end = weights.p + weights.depth;
  for (int64_t column = 0; column < weights.count; column += 32)
    for (int64_t p = weights.p; p < end;) {
      const int64_t tap = p / channels, channel = p % channels, depth = std::min(channels - channel, end - p);
      AmxProducts<bf16>::pack_columns(
          {weights.matrix + weights_.first + tap * weights_.tap_stride, weights_.result_stride,
           weights_.channel_stride, weights.first + column, std::min<int64_t>(weights.count - column, 32),
           channel, depth},
          to);
      p += depth, to += packed(32, depth);
    }
  return true;
}

void AmxConvProducts::Multiplier::run(const GemmTile<bf16>& tile, int64_t depth, const Packed* a,
                                      const Packed* b) {
  AmxTile<bf16> placed{tile, {}};
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
  AmxMultiplier<bf16>::run(placed, depth, a, b);
}

ATHANOR_AMX bool AmxConvWeightProducts::pack_rows(const GemmPart<bf16>& gradient, Packed* to) const {
  const int64_t of_image = windows_.of_image(), end = gradient.p + gradient.depth;
  const auto pixel_offset = [&](int64_t i) {
    return i / of_image * results_ * of_image + i % of_image * block;
  };
  for (int64_t result = 0; result < gradient.count; result += 32)
    for (int64_t p = gradient.p; p < end; p += 32)
      for (int64_t half = 0; half < 32; half += block, to += tile_elements) {
        const bool used = result + half < gradient.count;
        const bf16* from = gradient.matrix + (gradient.first + result + half) * of_image;
        Words rows[16];
        for (int64_t i = 0; i < 16; ++i) {
          const int64_t even = p + 2 * i, odd = even + 1;
          rows[i] = pairs_of(load_block(from + pixel_offset(even), used && even < end),
                             load_block(from + pixel_offset(odd), used && odd < end));
        }
        transpose(rows);
        store_tile_rows(rows, to);
      }
  return true;
}

bool AmxConvWeightProducts::pack_columns(const GemmPart<bf16>& image, Packed* to) const {
  Windows::Taps taps;
  for (int64_t column = 0; column < image.count; column += 32) {
    const int64_t tap = (image.first + column) / windows_.channels(),
                  channel = (image.first + column) % windows_.channels();
    for (int64_t p = 0; p < image.depth; p += 32) {
      windows_.find(image.p + p, image.depth - p, tap, taps);
      for (int64_t half = 0; half < 32; half += block, to += tile_elements)
        pack_windows(taps, image.matrix + (channel + half) / block * windows_.plane(), to);
    }
  }
  return true;
}

}  // namespace athanor::cpu
#endif
