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

template <class T>
using Lanes = hn::ScalableTag<T>;
template <class T>
constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Lanes<T>()));

template <class T>
struct Sums {
  hn::Vec<Lanes<T>> left[tile_rows], right[tile_rows];
};

// sums += the products of the panels' first `rows` rows.
template <int rows, class T>
HWY_INLINE void add_products(int64_t k, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, Sums<T>& sums) {
  const Lanes<T> d;
  for (int64_t p = 0; p < k; ++p, a += tile_rows, b += 2 * lanes<T>) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto ai = hn::Set(d, a[i]);
      sums.left[i] = hn::MulAdd(ai, b0, sums.left[i]);
      sums.right[i] = hn::MulAdd(ai, b1, sums.right[i]);
    }
  }
}

template <int rows, class T>
HWY_INLINE void store(const Sums<T>& sums, T* HWY_RESTRICT c, int64_t ldc) {
  const Lanes<T> d;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    hn::StoreU(sums.left[i], d, c + i * ldc);
    hn::StoreU(sums.right[i], d, c + i * ldc + lanes<T>);
  }
}

// Adds products and meanwhile fetches the next tile, a row at a time: all of its lines at once would wait
// for each other.
template <int rows, class T>
HWY_INLINE void add_products_and_fetch(int64_t k, const T* a, const T* b, const TileEnd<T>& end,
                                       Sums<T>& sums) {
  const int64_t part = end.next_rows > 0 ? k / end.next_rows : 0;
  const T* next = end.next;
  for (int64_t i = 0; i < end.next_rows; ++i, next += end.next_stride) {
    fetch_to_write(next);
    if constexpr (2 * lanes<T> * sizeof(T) > 64) fetch_to_write(next + lanes<T>);
    fetch_to_write(next + 2 * lanes<T> - 1);
    add_products<rows>(part, a, b, sums);
    a += part * tile_rows, b += part * 2 * lanes<T>;
  }
  add_products<rows>(k - end.next_rows * part, a, b, sums);
}

template <int rows, class T>
HWY_INLINE void run_some(int64_t k, const T* a, const T* b, T* HWY_RESTRICT c, int64_t ldc,
                         const TileEnd<T>& end) {
  const Lanes<T> d;
  Sums<T> sums;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) sums.left[i] = sums.right[i] = hn::Zero(d);
  add_products_and_fetch<rows>(k, a, b, end, sums);
  if (end.add) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      sums.left[i] = hn::Add(sums.left[i], hn::LoadU(d, c + i * ldc));
      sums.right[i] = hn::Add(sums.right[i], hn::LoadU(d, c + i * ldc + lanes<T>));
    }
  }
  if (end.bias != nullptr) {
    const auto b0 = hn::LoadU(d, end.bias), b1 = hn::LoadU(d, end.bias + lanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      sums.left[i] = hn::Add(sums.left[i], b0);
      sums.right[i] = hn::Add(sums.right[i], b1);
    }
  }
  if (end.relu) {
    const auto zero = hn::Zero(d);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      sums.left[i] = hn::IfThenZeroElse(hn::Lt(sums.left[i], zero), sums.left[i]);
      sums.right[i] = hn::IfThenZeroElse(hn::Lt(sums.right[i], zero), sums.right[i]);
    }
  }
  store<rows>(sums, c, ldc);
}

template <class T, int rows = tile_rows>
void run_rows(int64_t some, int64_t k, const T* a, const T* b, T* c, int64_t ldc, const TileEnd<T>& end) {
  if (some == rows) return run_some<rows>(k, a, b, c, ldc, end);
  if constexpr (rows > 1) run_rows<T, rows - 1>(some, k, a, b, c, ldc, end);
}

template <class T>
void go_on(int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  const Lanes<T> d;
  Sums<T> sums;
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i) {
    sums.left[i] = hn::LoadU(d, c + i * ldc);
    sums.right[i] = hn::LoadU(d, c + i * ldc + lanes<T>);
  }
  add_products<tile_rows>(k, a, b, sums);
  store<tile_rows>(sums, c, ldc);
}

template <class T>
MicroKernel<T> make() {
  return {tile_rows, static_cast<int>(2 * lanes<T>), run_rows<T>, go_on<T>};
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

constexpr int plain_rows = 4, plain_columns = 16;

template <class T>
void add_plain(int64_t rows, int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  for (int64_t p = 0; p < k; ++p, a += plain_rows, b += plain_columns)
    for (int64_t i = 0; i < rows; ++i)
      for (int j = 0; j < plain_columns; ++j) c[i * ldc + j] += a[i] * b[j];
}

// Only sums of integers are computed so. They are stored in another type, so Gemm adds the bias and finishes
// them.
template <class T>
void run_plain_rows(int64_t some, int64_t k, const T* a, const T* b, T* c, int64_t ldc,
                    const TileEnd<T>& end) {
  for (int64_t i = 0; i < some && !end.add; ++i) std::fill_n(c + i * ldc, plain_columns, T{0});
  add_plain(some, k, a, b, c, ldc);
}

template <class T>
void go_on_plain(int64_t k, const T* a, const T* b, T* c, int64_t ldc) {
  add_plain(plain_rows, k, a, b, c, ldc);
}

}  // namespace

template <>
MicroKernel<uint32_t> micro_kernel() {
  return {plain_rows, plain_columns, run_plain_rows<uint32_t>, go_on_plain<uint32_t>};
}
template <>
MicroKernel<uint64_t> micro_kernel() {
  return {plain_rows, plain_columns, run_plain_rows<uint64_t>, go_on_plain<uint64_t>};
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
