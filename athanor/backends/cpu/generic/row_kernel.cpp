#include "athanor/backends/cpu/generic/row_kernel.h"

#include <array>
#include <utility>

#include "athanor/backends/cpu/generic/product_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/row_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile is two vectors wide, and as high as the registers allow.
#if HWY_TARGET == HWY_SSE2 || HWY_TARGET == HWY_AVX2
constexpr int most_rows = 6;
#else
constexpr int most_rows = 12;
#endif

template <class T, int rows>
void run_rows(int64_t k, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, T* HWY_RESTRICT c, int64_t ldc) {
  const hn::ScalableTag<T> d;
  using Vector = hn::Vec<decltype(d)>;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  Vector left[rows], right[rows];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    left[i] = hn::LoadU(d, c + i * ldc);
    right[i] = hn::LoadU(d, c + i * ldc + lanes);
  }
  for (int64_t p = 0; p < k; ++p, ++a, b += 2 * lanes) {
    const Vector b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vector ai = hn::Set(d, a[i * row_kernel_stride]);
      left[i] = hn::MulAdd(ai, b0, left[i]);
      right[i] = hn::MulAdd(ai, b1, right[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    hn::StoreU(left[i], d, c + i * ldc);
    hn::StoreU(right[i], d, c + i * ldc + lanes);
  }
}

template <class T, int... index>
void run_some(std::integer_sequence<int, index...>, int rows, int64_t k, const T* a, const T* b, T* c,
              int64_t ldc) {
  static constexpr std::array all{run_rows<T, index + 1>...};
  all[static_cast<size_t>(rows - 1)](k, a, b, c, ldc);
}
template <class T>
void run(int rows, int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  run_some(std::make_integer_sequence<int, most_rows>(), rows, k, a, b, c, ldc);
}

template <class T>
RowKernel<T> make() {
  return {most_rows, static_cast<int>(2 * hn::MaxLanes(hn::ScalableTag<T>())), run<T>};
}
RowKernel<float> row_kernel_f32() { return make<float>(); }
RowKernel<double> row_kernel_f64() { return make<double>(); }

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(row_kernel_f32);
HWY_EXPORT(row_kernel_f64);

template <>
RowKernel<float> row_kernel() {
  return HWY_DYNAMIC_DISPATCH(row_kernel_f32)();
}
template <>
RowKernel<double> row_kernel() {
  return HWY_DYNAMIC_DISPATCH(row_kernel_f64)();
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
