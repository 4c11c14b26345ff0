#include "athanor/backends/cpu/generic/max_window.h"

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4)  // the baseline, AVX2 and AVX-512 are worth their compile time
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/max_window.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void max_window(const float* x, int64_t row_stride, int64_t rows, int64_t columns, int block, const float* dy,
                float* dx, bool store) {
  const hn::CappedTag<float, 8> d;  // 8 divides every block
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int c = 0; c < block; c += lanes) {
    auto best = hn::LoadU(d, x + c);
    auto taker = hn::Zero(di);
    int32_t position = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, ++position) {
        const auto value = hn::LoadU(d, x + row * row_stride + column * block + c);
        const auto greater = hn::Or(hn::Gt(value, best), hn::Ne(value, value));
        best = hn::IfThenElse(greater, value, best);
        taker = hn::IfThenElse(hn::RebindMask(di, greater), hn::Set(di, position), taker);
      }
    const auto gradient = hn::LoadU(d, dy + c);
    position = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, ++position) {
        float* to = dx + row * row_stride + column * block + c;
        const auto takes = hn::RebindMask(d, hn::Eq(taker, hn::Set(di, position)));
        const auto share = hn::IfThenElseZero(takes, gradient);
        hn::StoreU(store ? share : hn::Add(share, hn::LoadU(d, to)), d, to);
      }
  }
}

void max_of_window(const float* x, int64_t row_stride, int64_t rows, int64_t columns, int block, float* out) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int c = 0; c < block; c += lanes) {
    auto best = hn::LoadU(d, x + c);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const auto value = hn::LoadU(d, x + row * row_stride + column * block + c);
        best = hn::IfThenElse(hn::Or(hn::Gt(value, best), hn::Ne(value, value)), value, best);
      }
    hn::StoreU(best, d, out + c);
  }
}

MaxWindow max_window_of_target() { return max_window; }
MaxOfWindow max_of_window_of_target() { return max_of_window; }

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(max_window_of_target);
MaxWindow max_window_kernel() { return HWY_DYNAMIC_DISPATCH(max_window_of_target)(); }

HWY_EXPORT(max_of_window_of_target);
MaxOfWindow max_of_window_kernel() { return HWY_DYNAMIC_DISPATCH(max_of_window_of_target)(); }

}  // namespace athanor::cpu
#endif  // HWY_ONCE
