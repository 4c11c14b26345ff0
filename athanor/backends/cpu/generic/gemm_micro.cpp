#include "athanor/backends/cpu/generic/gemm_micro.h"

#include <algorithm>

#include "athanor/backends/cpu/generic/product_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/gemm_micro.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile is two vectors wide, and as high as the registers allow: 32 registers with AVX-512 and NEON, else
// 16.
#if HWY_TARGET == HWY_SSE2 || HWY_TARGET == HWY_AVX2
constexpr int tile_rows = 6;
#else
constexpr int tile_rows = 12;
#endif

template <class T, bool goes_on>
HWY_INLINE void tile(int64_t k, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, T* HWY_RESTRICT c,
                     int64_t ldc, bool add) {
  const hn::ScalableTag<T> d;
  using Vector = hn::Vec<decltype(d)>;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  Vector left[tile_rows], right[tile_rows];
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i) {
    left[i] = goes_on ? hn::LoadU(d, c + i * ldc) : hn::Zero(d);
    right[i] = goes_on ? hn::LoadU(d, c + i * ldc + lanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < k; ++p, a += tile_rows, b += 2 * lanes) {
    const Vector b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
#pragma GCC unroll 16
    for (int i = 0; i < tile_rows; ++i) {
      const Vector ai = hn::Set(d, a[i]);
      left[i] = hn::MulAdd(ai, b0, left[i]);
      right[i] = hn::MulAdd(ai, b1, right[i]);
    }
  }
  if (add && !goes_on) {
#pragma GCC unroll 16
    for (int i = 0; i < tile_rows; ++i) {
      left[i] = hn::Add(left[i], hn::LoadU(d, c + i * ldc));
      right[i] = hn::Add(right[i], hn::LoadU(d, c + i * ldc + lanes));
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i) {
    hn::StoreU(left[i], d, c + i * ldc);
    hn::StoreU(right[i], d, c + i * ldc + lanes);
  }
}

template <class T>
void run_tile(int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add) {
  tile<T, false>(k, a, b, c, ldc, add);
}
template <class T>
void go_on(int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  tile<T, true>(k, a, b, c, ldc, true);
}

template <class T>
MicroKernel<T> make() {
  return {tile_rows, static_cast<int>(2 * hn::MaxLanes(hn::ScalableTag<T>())), run_tile<T>, go_on<T>};
}
MicroKernel<float> make_f32() { return make<float>(); }
MicroKernel<double> make_f64() { return make<double>(); }

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(make_f32);
HWY_EXPORT(make_f64);

template <>
MicroKernel<float> micro_kernel() {
  return HWY_DYNAMIC_DISPATCH(make_f32)();
}
template <>
MicroKernel<double> micro_kernel() {
  return HWY_DYNAMIC_DISPATCH(make_f64)();
}

namespace {

template <class T>
void run_plain_tile(int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add) {
  constexpr int rows = 4, columns = 16;
  if (!add)
    for (int i = 0; i < rows; ++i) std::fill_n(c + i * ldc, columns, T{0});
  for (int64_t p = 0; p < k; ++p, a += rows, b += columns)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) c[i * ldc + j] += a[i] * b[j];
}

template <class T>
void go_on_plain(int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  run_plain_tile(k, a, b, c, ldc, true);
}

}  // namespace

template <>
MicroKernel<uint32_t> micro_kernel() {
  return {4, 16, run_plain_tile<uint32_t>, go_on_plain<uint32_t>};
}
template <>
MicroKernel<uint64_t> micro_kernel() {
  return {4, 16, run_plain_tile<uint64_t>, go_on_plain<uint64_t>};
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
