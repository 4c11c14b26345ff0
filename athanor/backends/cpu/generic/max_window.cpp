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

// Half types are widened while they are read. 8 lanes divide every block.
using F32 = hn::CappedTag<float, 8>;

HWY_INLINE hn::Vec<F32> read(F32 d, const float* from) { return hn::LoadU(d, from); }
HWY_INLINE hn::Vec<F32> read(F32 d, const bf16* from) {
  const hn::Rebind<hwy::bfloat16_t, F32> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::bfloat16_t*>(from)));
}
HWY_INLINE hn::Vec<F32> read(F32 d, const f16* from) {
  const hn::Rebind<hwy::float16_t, F32> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <class T>
void max_window(const T* x, int64_t row_stride, int64_t rows, int64_t columns, int block, const T* dy,
                float* dx, bool store) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int c = 0; c < block; c += lanes) {
    auto best = read(d, x + c);
    auto taker = hn::Zero(di);
    int32_t position = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, ++position) {
        const auto value = read(d, x + row * row_stride + column * block + c);
        const auto greater = hn::Or(hn::Gt(value, best), hn::Ne(value, value));
        best = hn::IfThenElse(greater, value, best);
        taker = hn::IfThenElse(hn::RebindMask(di, greater), hn::Set(di, position), taker);
      }
    const auto gradient = read(d, dy + c);
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

template <class T>
void max_of_window(const T* x, int64_t row_stride, int64_t rows, int64_t columns, int block, float* out) {
  const F32 d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int c = 0; c < block; c += lanes) {
    auto best = read(d, x + c);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const auto value = read(d, x + row * row_stride + column * block + c);
        best = hn::IfThenElse(hn::Or(hn::Gt(value, best), hn::Ne(value, value)), value, best);
      }
    hn::StoreU(best, d, out + c);
  }
}

WindowKernels<float> kernels_f32() { return {max_of_window<float>, max_window<float>}; }
WindowKernels<bf16> kernels_bf16() { return {max_of_window<bf16>, max_window<bf16>}; }
WindowKernels<f16> kernels_f16() { return {max_of_window<f16>, max_window<f16>}; }

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(kernels_f32);
HWY_EXPORT(kernels_bf16);
HWY_EXPORT(kernels_f16);

template <>
WindowKernels<float> window_kernels() {
  return HWY_DYNAMIC_DISPATCH(kernels_f32)();
}
template <>
WindowKernels<bf16> window_kernels() {
  return HWY_DYNAMIC_DISPATCH(kernels_bf16)();
}
template <>
WindowKernels<f16> window_kernels() {
  return HWY_DYNAMIC_DISPATCH(kernels_f16)();
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
