#include "athanor/backends/cpu/amx/windows.h"

#include "athanor/backends/cpu/amx/amx.h"

#if ATHANOR_HAS_AMX
#include "athanor/backends/cpu/amx/words.h"

namespace athanor::cpu {

Windows::Windows(const Shape& image, const Shape& result, Pair taps, Pair stride, Pair dilation, Pair padding)
    : batch_(image[0]),
      channels_(image[1]),
      height_(image[2]),
      width_(image[3]),
      of_image_(result[2] * result[3]),
      taps_(taps),
      dilation_(dilation) {
  auto starts = std::make_shared<Starts>();
  for (int64_t i = 0; i < of_image_ + 31; ++i) {
    const int64_t in_image = i % of_image_;
    const auto add = [](std::vector<int32_t>& to, int64_t value) {
      to.push_back(static_cast<int32_t>(value));
    };
    add(starts->row, in_image / result[3] * stride.height - padding.height);
    add(starts->column, in_image % result[3] * stride.width - padding.width);
    add(starts->image, i / of_image_ * (channels_ * height_ * width_));
  }
  starts_ = std::move(starts);
}

ATHANOR_AMX void Windows::find(int64_t first, int64_t some, int64_t tap, Taps& to) const {
  const int64_t image = first / of_image_, start = first % of_image_;
  const auto all = [](int64_t value) { return static_cast<int>(value); };
  const Words tap_row = _mm512_set1_epi32(all(tap / taps_.width * dilation_.height)),
              tap_column = _mm512_set1_epi32(all(tap % taps_.width * dilation_.width)),
              height = _mm512_set1_epi32(all(height_)), width = _mm512_set1_epi32(all(width_)),
              from = _mm512_set1_epi32(all(image * channels_ * height_ * width_));
  to.inside = 0;
  for (int64_t i = 0; i < 32; i += 16) {
    const auto at = [&](const std::vector<int32_t>& v) { return v.data() + start + i; };
    const Words row = _mm512_add_epi32(_mm512_loadu_si512(at(starts_->row)), tap_row),
                column = _mm512_add_epi32(_mm512_loadu_si512(at(starts_->column)), tap_column);
    // As unsigned numbers, those before the image are large.
    const __mmask16 inside =
        _mm512_mask_cmplt_epu32_mask(_mm512_cmplt_epu32_mask(row, height), column, width) &
        first_16(some - i);
    const Words pixel = _mm512_add_epi32(_mm512_mullo_epi32(row, width), column),
                offset = _mm512_add_epi32(_mm512_slli_epi32(pixel, 4),
                                          _mm512_add_epi32(from, _mm512_loadu_si512(at(starts_->image))));
    _mm512_store_si512(to.offset + i, _mm512_maskz_mov_epi32(inside, offset));
    to.inside |= static_cast<uint32_t>(inside) << i;
  }
}

}  // namespace athanor::cpu
#endif
